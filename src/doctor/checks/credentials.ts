/** Credentials and passwords: when they expire, and which administrators can sign in. */

import { X509Certificate } from 'node:crypto'
import { readFileSync } from 'node:fs'
import path from 'node:path'
import { hasSigner, usesBackend } from '../../config/backends.ts'
import type { Config } from '../../config/schema.ts'
import { messageOf } from '../../shared/lib/errors.ts'
import type { Check } from '../sources.ts'
import { failure, ok, orOk, type Possible, unknownBecause, type Verdict, warning } from '../verdict.ts'

export const CREDENTIALS: readonly Check[] = [
  {
    id: 'credentials.accounts',
    title: 'No credential for new accounts ends soon unused',
    async look(sources) {
      const found = await sources.read('credentials')
      return orOk(
        found.map(({ kid, label, expiresAt }) =>
          warning(
            `the EAB credential ${label ?? kid} ends at ${expiresAt.toISOString()}, and nobody has used it`,
            `chancery -c FILE eab create makes another; tell its user`,
          ),
        ),
        'none within 14 days',
      )
    },
  },
  {
    id: 'credentials.tokens',
    title: 'No API token ends soon',
    async look(sources) {
      if (!sources.config.admin_api.enabled) return undefined
      const found = await sources.read('tokens')
      return orOk(
        found.map(({ name, expiresAt }) => judgeToken(name, expiresAt, new Date())),
        'none within 14 days',
      )
    },
  },
  {
    id: 'credentials.administrators',
    title: 'Somebody can administer the service',
    async look(sources) {
      if (!sources.config.admin_api.enabled) return undefined
      const { enabled, lastLoginAt } = await sources.read('administrators')
      return judgeAdministrators(enabled, lastLoginAt)
    },
  },
  {
    id: 'credentials.certificates',
    title: 'No certificate that the service shows to others, or trusts, ends soon',
    look(sources) {
      const files = certificateFiles(sources.config)
      return files.length === 0 ? undefined : orOk(files.map(judgeFile), `${files.length} files`)
    },
  },
  {
    id: 'credentials.signer-chain',
    title: 'No certificate above an issuer ends soon',
    async look(sources) {
      if (!hasSigner(sources.config)) return undefined
      const { issuers } = await sources.signer()
      const above = issuers.flatMap(({ id, chain }) =>
        chain.slice(1).map((der) => ({ id, certificate: new X509Certificate(der) })),
      )
      return orOk(
        above.map(({ id, certificate }) =>
          judgeEnd(
            `a certificate above the issuer ${id} (${nameOf(certificate)})`,
            certificate,
            'renew it, and give the signer the new chain: issuers[].chain',
          ),
        ),
        `${above.length} certificates above issuers`,
      )
    },
  },
]

const nameOf = ({ subject }: X509Certificate) => subject.replaceAll('\n', ', ')
const DAY_MS = 86_400_000
const [WARNING_DAYS, FAILURE_DAYS] = [30, 7]

export function judgeEnd(
  what: string,
  { validTo }: Pick<X509Certificate, 'validTo'>,
  mend: string,
  now = new Date(),
): Possible {
  const days = Math.floor((Date.parse(validTo) - now.getTime()) / DAY_MS)
  if (days < 0) return failure(`${what} has expired, at ${validTo}`, mend)
  if (days < FAILURE_DAYS) return failure(`${what} ends in ${days} days`, mend)
  return days < WARNING_DAYS && warning(`${what} ends in ${days} days`, mend)
}

function judgeToken(name: string, expiresAt: Date, now: Date): Verdict {
  const mend = 'chancery --server URL tokens create NAME makes another; give it to what uses this one'
  return expiresAt < now
    ? warning(
        `the API token ${name} has expired, at ${expiresAt.toISOString()}`,
        `${mend}; or chancery -c FILE tokens revoke ID`,
      )
    : warning(`the API token ${name} ends at ${expiresAt.toISOString()}`, mend)
}

export function judgeAdministrators(enabled: number, lastLoginAt: Date | null): Verdict {
  if (enabled === 0)
    return failure(
      'no administrator is enabled: nobody can sign in',
      'chancery -c FILE users create --role admin, or users update NAME --enabled true',
    )
  if (lastLoginAt === null) return ok(`${enabled} enabled, nobody has signed in yet`)
  return ok(`${enabled} enabled, the last login was at ${lastLoginAt.toISOString()}`)
}

function certificateFiles(config: Config): { key: string; file: string }[] {
  const { ca, challenges, smtp, admin_api } = config
  const external = usesBackend(config, 'external')
  const all: [string, string | null | undefined][] = [
    ['ca.external.client_cert_path', external ? ca.external.client_cert_path : null],
    ...(external ? ca.external.trust_anchors.map((file): [string, string] => ['ca.external.trust_anchors', file]) : []),
    ['admin_api.listen.cert_file', admin_api.listen?.cert_file],
    ['smtp.ca_file', smtp.enabled ? smtp.ca_file : null],
    ['database.sslrootcert', config.database.sslrootcert],
    ['server.tls.cert_path', config.server.tls.self_issued_names.length > 0 ? null : config.server.tls.cert_path],
    ...challenges.perspectives.map((one, at): [string, string | null] => [
      `challenges.perspectives[${at}].client_cert_path`,
      one.client_cert_path,
    ]),
  ]
  return all.flatMap(([key, file]) => (typeof file === 'string' ? [{ key, file: path.resolve(file) }] : []))
}

function judgeFile({ key, file }: { key: string; file: string }): Possible {
  try {
    const certificate = new X509Certificate(readFileSync(file))
    return judgeEnd(
      `the certificate in ${file} (${key})`,
      certificate,
      `put a new one into ${file}, and restart the service`,
    )
  } catch (error) {
    return unknownBecause(`${file} cannot be read: ${messageOf(error)}`)
  }
}
