/**
 * The configuration as one schema: type, default, bounds, unit, reload class and sentence of every
 * key.
 *
 * The loader, the manual (`docs/configuration.md`) and the editors' JSON Schema derive from it.
 */

import { z } from 'zod/v4'
import { Account, Acme, Api, Ari, Email, Nonce, Order, Quotas, Tos } from './sections/acme.ts'
import { Ca, Crl } from './sections/ca.ts'
import { Challenges, Dns } from './sections/challenges.ts'
import { Comment, CtLogging, Hooks, Notifications, Smtp } from './sections/events.ts'
import { AdminApi, AuditExport, AuditRetention, Database, Logging, Metrics, Retention } from './sections/operations.ts'
import { Perspective } from './sections/perspective.ts'
import { Security } from './sections/security.ts'
import { ReverseProxy, Server } from './sections/server.ts'

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
