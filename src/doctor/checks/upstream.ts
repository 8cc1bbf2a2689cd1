/** Servers of others that the service asks, also its mail server: whether they can be reached, and trusted. */

import { readFileSync } from 'node:fs'
import { rootCertificates } from 'node:tls'
import { usesBackend } from '../../config/backends.ts'
import type { Config } from '../../config/schema.ts'
import { MailTransport } from '../../events/notifications/transport.ts'
import { mailSettings } from '../../settings/event-settings.ts'
import { messageOf } from '../../shared/lib/errors.ts'
import { type Reached, reach } from '../facts/reach.ts'
import type { Check } from '../sources.ts'
import { failure, ok, unknownBecause, type Verdict, warning } from '../verdict.ts'

export const UPSTREAM: readonly Check[] = [
  {
    id: 'upstream.reachable',
    title: 'Servers that the service asks can be reached, and their certificates be trusted; no request is sent',
    async look({ config }) {
      const servers = serversOf(config)
      return servers.length === 0 ? undefined : Promise.all(servers.map(lookAt))
    },
  },
]

interface Server {
  /** The key of the configuration that names the server. */
  key: string
  url: string
  /** A file with the CAs that count; where `isAdded`, the CAs of Node.js count, too. */
  roots?: { key: string; file: string | null; isAdded: boolean }
  /** An HTTP proxy is on the way; this check does not use it. */
  proxy?: string | null
}

function serversOf(config: Config): Server[] {
  const { ca, challenges, audit_export, ct_logging, hooks } = config
  const { external, acme_proxy: upstream } = ca
  return [
    ...challenges.perspectives.map(({ url, ca_path }, at) => {
      const key = `challenges.perspectives[${at}]`
      return { key: `${key}.url`, url, roots: { key: `${key}.ca_path`, file: ca_path, isAdded: false } }
    }),
    ...(usesBackend(config, 'external') && external.sign_url !== null
      ? [
          {
            key: 'ca.external.sign_url',
            url: external.sign_url,
            roots: { key: 'ca.external.ca_cert_path', file: external.ca_cert_path, isAdded: true },
            proxy: external.proxy_url,
          },
        ]
      : []),
    ...(usesBackend(config, 'acme_proxy') && upstream.directory_url !== null
      ? [
          {
            key: 'ca.acme_proxy.directory_url',
            url: upstream.directory_url,
            roots: { key: 'ca.acme_proxy.ca_cert_path', file: upstream.ca_cert_path, isAdded: true },
            proxy: upstream.proxy_url,
          },
        ]
      : []),
    ...(audit_export.webhook_url === null ? [] : [{ key: 'audit_export.webhook_url', url: audit_export.webhook_url }]),
    ...(ct_logging.enabled ? ct_logging.logs.map(({ url }, at) => ({ key: `ct_logging.logs[${at}].url`, url })) : []),
    ...hooks.registered.flatMap(({ class: kind, enabled, config: settings }, at) => {
      const url = settings['url']
      const isAsked = enabled && kind === 'webhook' && typeof url === 'string'
      return isAsked ? [{ key: `hooks.registered[${at}].config.url`, url }] : []
    }),
  ]
}

async function lookAt({ key, url, roots, proxy }: Server): Promise<Verdict> {
  // The rest of a URL may be a secret.
  const { origin } = new URL(url)
  if (proxy) return unknownBecause(`${origin} (${key}) is asked through a proxy`)
  try {
    const own = roots?.file ? [readFileSync(roots.file, 'utf8')] : []
    const trusted = roots?.file && !roots.isAdded ? own : [...rootCertificates, ...own]
    return judgeServer(key, origin, await reach(url, trusted), roots?.key)
  } catch (error) {
    return unknownBecause(`${roots?.key} cannot be used: ${messageOf(error)}`)
  }
}

const DAY_MS = 86_400_000
const WARNING_DAYS = 7

/** @param rootsKey that names the CAs that count */
export function judgeServer(
  key: string,
  origin: string,
  reached: Reached,
  rootsKey?: string,
  now = new Date(),
): Verdict {
  const { failure: why, problem, validTo } = reached
  if (why !== undefined)
    return failure(
      `${origin} (${key}) is not reached from here: ${why}`,
      `correct ${key}, or let this host through to it`,
    )
  const renew = 'tell its operator'
  if (problem !== undefined) {
    const trust = rootsKey === undefined ? 'NODE_EXTRA_CA_CERTS of the unit' : rootsKey
    return failure(
      `the certificate of ${origin} (${key}) is not trusted: ${problem}`,
      `${renew}, or name the CA that has issued it in ${trust}`,
    )
  }
  const days = validTo === undefined ? undefined : Math.floor((Date.parse(validTo) - now.getTime()) / DAY_MS)
  if (days !== undefined && days < WARNING_DAYS)
    return warning(`the certificate of ${origin} (${key}) ends in ${days} days`, renew)
  return ok(`${origin} (${key})`)
}

const LIMIT_MS = 10_000

export const MAIL: readonly Check[] = [
  {
    id: 'mail.server',
    title: 'The mail server takes the login; no mail is sent',
    async look({ config }) {
      if (!config.smtp.enabled) return undefined
      const settings = mailSettings(config)
      const transport = new MailTransport({ ...settings, timeoutMs: Math.min(settings.timeoutMs, LIMIT_MS) })
      const place = `${settings.host}:${settings.port}`
      try {
        await transport.probe()
        return ok(`${place} answers (smtp.tls: ${settings.tls})`)
      } catch (error) {
        return failure(
          `the mail server ${place} (smtp.tls: ${settings.tls}) cannot be used: ${messageOf(error)}`,
          'correct smtp.host, port, tls, username or ca_file; chancery -c FILE mail test --to ADDRESS sends a mail',
        )
      } finally {
        transport.close()
      }
    },
  },
]
