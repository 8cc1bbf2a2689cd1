/** The certificate of the public URL. */

import { X509Certificate } from 'node:crypto'
import { readFileSync } from 'node:fs'
import path from 'node:path'
import { checkServerIdentity } from 'node:tls'
import { hostOf, isIpAddress } from '../../shared/lib/host.ts'
import type { TlsFacts } from '../facts/http.ts'
import type { Check, Sources } from '../sources.ts'
import { CannotTell, failure, ok, unknownBecause, type Verdict, warning } from '../verdict.ts'

export const TLS: readonly Check[] = [
  {
    id: 'tls.expiry',
    title: 'The certificate of the public URL is valid for a while',
    look: (sources) =>
      withTls(sources, ({ chain }) =>
        judgeExpiry(leafOf(chain), new Date(), sources.config.server.tls.self_issued_names.length > 0),
      ),
  },
  {
    id: 'tls.name',
    title: 'The certificate of the public URL is for its name',
    look: (sources) =>
      withTls(sources, ({ chain }) => judgeName(leafOf(chain), hostOf(sources.config.server.external_url))),
  },
  {
    id: 'tls.chain',
    title: 'Clients that trust this CA, or the public ones, accept the certificate of the public URL',
    look: (sources) =>
      withTls(sources, async (facts) => judgeChain(facts, (await sources.roots()).filter(isRoot).length > 0)),
  },
  {
    id: 'tls.loaded',
    title: 'The service uses the certificate that is in its file',
    async look(sources) {
      const { cert_path } = sources.config.server.tls
      if (cert_path === null) return undefined
      const { tls } = await sources.serviceAnswer('/livez')
      const [served] = tls?.chain ?? []
      if (!served) throw new CannotTell('the service does not speak TLS')
      const inFile = new X509Certificate(readFileSync(path.resolve(cert_path)))
      if (inFile.raw.equals(served)) return ok(`it is that of ${cert_path}`)
      return judgeUnread(cert_path, inFile, new Date())
    },
  },
]

/** Judges a file that the running service has not read. The next start would use it. */
export function judgeUnread(file: string, { validTo }: Pick<X509Certificate, 'validTo'>, now: Date): Verdict {
  const says = `the service uses another certificate than ${file} has now`
  if (Date.parse(validTo) > now.getTime()) return warning(says, 'restart the service: it reads the file at its start')
  return failure(
    `${says}, which ended at ${new Date(validTo).toISOString()}: the next start would serve that`,
    `put a certificate that is valid into ${file} (server.tls.cert_path); do not restart the service before`,
  )
}

const isRoot = (pem: string) => {
  const certificate = new X509Certificate(pem)
  return certificate.checkIssued(certificate)
}

async function withTls(sources: Sources, judge: (facts: TlsFacts) => Verdict | Promise<Verdict>) {
  if (!/^https:/.test(sources.config.server.external_url)) return undefined
  const { tls } = await sources.publicAnswer(sources.local('directory'))
  return tls && judge(tls)
}

function leafOf([leaf]: readonly Buffer[]): X509Certificate {
  if (!leaf) throw new CannotTell('no certificate was shown')
  return new X509Certificate(leaf)
}

const DAY_MS = 86_400_000

export function judgeExpiry(
  { validFrom, validTo }: Pick<X509Certificate, 'validFrom' | 'validTo'>,
  now: Date,
  isSelfIssued: boolean,
): Verdict {
  const [from, to] = [Date.parse(validFrom), Date.parse(validTo)]
  const leftMs = to - now.getTime()
  const until = `it ends at ${new Date(to).toISOString()}`
  const renew = isSelfIssued
    ? 'the service renews it itself: its log says what keeps it from that'
    : 'renew it where the proxy or server.tls.cert_path has it, and look at what should have renewed it'
  if (leftMs < 0) return failure(`the certificate has expired: ${until}`, renew)
  if (from > now.getTime())
    return failure(
      `the certificate is not valid before ${new Date(from).toISOString()}`,
      'see the clock of this host, and of the CA that issued it',
    )
  // A certificate counts as late in the last tenth of its life, and a week before its end at most.
  if (leftMs < Math.min(7 * DAY_MS, (to - from) / 10)) return warning(`the certificate ends soon: ${until}`, renew)
  return ok(until)
}

function judgeName(leaf: X509Certificate, host: string): Verdict {
  const isRight = isIpAddress(host) ? leaf.checkIP(host) !== undefined : leaf.checkHost(host) !== undefined
  if (isRight) return ok(`it is for ${host}`)
  const problem = checkServerIdentity(host, leaf.toLegacyObject())?.message ?? 'another name'
  return failure(
    `the certificate is not for ${host}: ${problem}`,
    `get one for ${host}, or correct server.external_url`,
  )
}

const OWN_CHECKS = new Set(['CERT_HAS_EXPIRED', 'CERT_NOT_YET_VALID', 'ERR_TLS_CERT_ALTNAME_INVALID'])
const NO_ISSUER = new Set([
  'UNABLE_TO_VERIFY_LEAF_SIGNATURE',
  'UNABLE_TO_GET_ISSUER_CERT_LOCALLY',
  'UNABLE_TO_GET_ISSUER_CERT',
])

/** @param knowsRoot whether the root of this CA is known here */
export function judgeChain({ problem }: Pick<TlsFacts, 'problem'>, knowsRoot: boolean): Verdict {
  // Expiry and name have checks of their own.
  if (problem === undefined || OWN_CHECKS.has(problem) || /altname|does not match/i.test(problem))
    return ok('the chain leads to a root that they trust')
  if (NO_ISSUER.has(problem) && !knowsRoot)
    return unknownBecause(
      `the root of this CA is not known here (${problem})`,
      'give the signer the whole chain: issuers[].chain of its configuration',
    )
  const why = NO_ISSUER.has(problem) ? `the certificates between it and the root are not sent (${problem})` : problem
  return failure(
    `a client that trusts the root of this CA and the public ones refuses the certificate: ${why}`,
    'send the whole chain, its own certificate first: the file of the proxy, or server.tls.cert_path; and let clients trust the root',
  )
}
