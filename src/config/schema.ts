/**
 * The configuration as one schema: type, default, bounds, unit, reload class and sentence of every key.
 *
 * The loader, the manual (`docs/configuration.md`) and the editors' JSON Schema derive from it.
 */

import * as z from 'zod/v4'
import { formatPath, type Path } from '../shared/config-file/notice.ts'
import { type SchemaNode, schemaNodeOf } from '../shared/config-file/schema-node.ts'
import { checkedText, list, optionalText, port, section, setting, text, whole } from './field.ts'
import { Account, Acme, Api, Ari, Email, Nonce, Order, Quotas, Tos } from './sections/acme.ts'
import { Ca, Crl } from './sections/ca.ts'
import { Challenges, Dns } from './sections/challenges.ts'
import { Comment, CtLogging, Hooks, Notifications, Smtp } from './sections/events.ts'
import { AdminApi, AuditExport, AuditRetention, Database, Logging, Metrics, Retention } from './sections/operations.ts'
import { ReverseProxy, Security, Server } from './sections/server.ts'

const MIN_TOKEN = 16

const Perspective = section('A remote perspective for other instances; read by `chancery perspective` only.', {
  code: setting(
    checkedText('a name of letters, digits, ".", "_" and "-"', (value) => /^[A-Za-z0-9._-]{1,64}$/.test(value)).default(
      'chancery',
    ),
    'Its own name in its answers (`perspective_code`).',
  ),
  bind: setting(text('0.0.0.0'), 'Address to listen on.'),
  port: setting(port(8444), 'TCP port to listen on.'),
  cert_path: setting(optionalText(), 'PEM file with its server certificate and chain.'),
  key_path: setting(optionalText(), 'PEM file with the private key of that certificate.'),
  tokens: setting(
    list(checkedText(`a text of at least ${MIN_TOKEN} characters`, (value) => value.length >= MIN_TOKEN)),
    'Bearer tokens of those who may ask, one each.',
    { secret: true },
  ),
  client_ca_path: setting(
    optionalText(),
    'PEM file with the CAs of client certificates; with `tokens` as well, a caller needs both.',
  ),
  max_concurrent: setting(whole(1, 500), 'Checks at the same time; as many may wait.'),
})

export const ConfigSchema = z.strictObject({
  _comment: Comment,
  server: Server,
  proxy: ReverseProxy,
  security: Security,
  acme: Acme,
  api: Api,
  challenges: Challenges,
  perspective: Perspective,
  ca: Ca,
  dns: Dns,
  email: Email,
  account: Account,
  smtp: Smtp,
  logging: Logging,
  database: Database,
  notifications: Notifications,
  hooks: Hooks,
  nonce: Nonce,
  order: Order,
  quotas: Quotas,
  tos: Tos,
  admin_api: AdminApi,
  crl: Crl,
  ari: Ari,
  metrics: Metrics,
  ct_logging: CtLogging,
  audit_retention: AuditRetention,
  audit_export: AuditExport,
  retention: Retention,
})

/** The finished configuration: every key present, defaults filled in, names as in the file. */
export type Config = z.output<typeof ConfigSchema>

/** The schema as plain data. */
export const REFERENCE = schemaNodeOf(ConfigSchema)

interface Leaf {
  path: Path
  node: SchemaNode
}

/** Lists and tables of names count as one key each. */
export const LEAVES: readonly Leaf[] = leavesOf(REFERENCE, [])

function leavesOf(node: SchemaNode, path: Path): Leaf[] {
  if (node.properties === undefined) return [{ path, node }]
  return Object.entries(node.properties)
    .filter(([key]) => key !== '_comment')
    .flatMap(([key, child]) => leavesOf(child, [...path, key]))
}

/** The key of a feature that this version lacks. To ask for it is an error (`rules/operations-rules.ts`). */
export const ABSENT_KEY = 'ct_logging.submit_precert'

/** Keys of existing configurations that have no effect here; each is a warning. */
export const WITHOUT_EFFECT: readonly string[] = ['server.worker_class', 'nonce.length']

/** Whether no code reads the value of the key. */
export const isInert = (path: Path): boolean => [ABSENT_KEY, ...WITHOUT_EFFECT].includes(formatPath(path))
