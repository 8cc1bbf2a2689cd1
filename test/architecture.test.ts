/**
 * The layering, executed: who may import whom, which file knows which foreign package, and that nothing goes in circles.
 *
 * The tables are the rule; a new folder, a new package or a new direction of import starts with a row here.
 */

import assert from 'node:assert/strict'
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import path from 'node:path'
import { describe, test } from 'node:test'

const ROOT = path.resolve(import.meta.dirname, '../..')
const TREES = ['src', 'signer', 'workers', 'bench', 'deploy']

/** What every trust zone shares: pure, without I/O. */
const SHARED = ['src/shared/lib', 'src/shared/protocol', 'src/shared/pki']

/** Folder → folders and single files it may import; itself is implied. */
const MAY_IMPORT: Record<string, readonly string[]> = {
  'src/shared/lib': [],
  'src/shared/protocol': ['src/shared/lib'],
  'src/shared/pki': ['src/shared/lib'],
  'src/shared/config-file': [],
  'src/shared/command-line.ts': ['src/shared/config-file/suggest.ts', 'src/shared/lib/terminal.ts'],
  'src/domain': SHARED,
  'src/store': ['src/shared/lib', 'src/shared/protocol', 'src/domain'],
  'src/ca': [
    ...SHARED,
    'src/domain',
    'signer/protocol',
    'src/runtime/process-identity.ts',
    'src/runtime/supervision.ts',
    'workers/module',
  ],
  'src/services': [...SHARED, 'src/domain', 'src/store', 'src/ca', 'workers/pool.ts', 'workers/job.ts'],
  'src/overload': ['src/shared/lib', 'src/shared/protocol'],
  'src/http': ['src/shared/lib', 'src/shared/protocol'],
  'src/validation': [
    'src/shared/lib',
    'src/shared/protocol',
    'src/domain',
    'src/services',
    'src/config',
    'src/settings',
    'workers/pool.ts',
    'workers/job.ts',
    'workers/extension',
  ],
  'src/mpic': [
    'src/shared/lib',
    'src/shared/protocol',
    'src/config',
    'src/validation',
    'workers/pool.ts',
    'workers/job.ts',
  ],
  'src/acme': ['src/shared/lib', 'src/shared/protocol', 'src/http', 'src/domain', 'src/services'],
  // One folder a group of endpoints: the endpoints, what they do, and their SQL.
  'src/admin': [
    ...SHARED,
    'src/shared/config-file/suggest.ts',
    'src/config/shown.ts',
    'src/domain',
    'src/store',
    'src/services',
    'src/events',
    'src/http',
    'src/ops',
    'src/runtime',
    'src/settings',
    'src/overload',
  ],
  // The log of events and who reads it: mails, hooks, webhooks, syslog, transparency logs.
  'src/events': [
    ...SHARED,
    'src/domain',
    'src/store',
    'src/services/chain-download.ts',
    'src/config',
    'src/settings',
    'workers/module',
    'workers/address-policy.ts',
  ],
  // What another ACME server had. It writes through the stores and the audit log, as administrators do.
  'src/import': [
    ...SHARED,
    'src/domain',
    'src/store',
    'src/admin/audit',
    'src/admin/eab',
    'src/admin/profiles',
    'src/admin/users',
  ],
  'src/ops': [],
  'src/runtime': ['src/shared/lib'],
  'src/config': [...SHARED, 'src/shared/config-file', 'src/domain'],
  // Settings are the configuration in the form that each part takes, so they see the parts' types.
  'src/settings': [
    ...SHARED,
    'src/config',
    'src/domain',
    'src/store',
    'src/ca',
    'src/services',
    'src/http',
    'src/acme/endpoint.ts',
    'workers/extension/extension-task.ts',
  ],
  // Where the whole is put together: the supervisor, and the entry of each thread with its wiring.
  'src/main': [
    'src/shared/lib',
    'src/shared/protocol',
    'src/domain',
    'src/store',
    'src/ca',
    'src/services',
    'src/overload',
    'src/http',
    'src/acme',
    'src/admin',
    'src/events',
    'src/front',
    'src/ops',
    'src/runtime',
    'src/config',
    'src/settings',
    'src/validation',
    'src/mpic',
    'workers/crl-pool.ts',
    'workers/job.ts',
    'workers/extension',
    'signer/protocol',
  ],
  'src/front': [
    'src/shared/lib',
    'src/shared/protocol',
    'src/domain',
    'src/services',
    'src/overload',
    'src/http',
    'src/acme',
    'src/admin',
    'src/events',
    'src/ops/metrics.ts',
  ],
  'src/cli': [
    ...SHARED,
    'src/shared/config-file',
    'src/shared/command-line.ts',
    'src/config',
    'src/domain',
    'src/store',
    'src/services',
    'src/http/start-checks.ts',
    'src/settings',
    'src/mpic/perspective-service.ts',
    'src/ca',
    'src/validation/extensions.ts',
    'src/main',
    // A look at mails, and a test of the mail server.
    'src/events/notifications',
    'src/events/hooks/load-hooks.ts',
    'src/ops/logging.ts',
    'src/dev/run.ts',
    'signer/protocol',
    // The descriptions and the client for commands from another machine, and the application for those here.
    'src/admin',
  ],
  // It sets up by the programs themselves, and asks the service as a client would.
  'src/setup': [
    ...SHARED,
    'src/shared/config-file',
    'src/config/field.ts',
    'src/ca/acme-proxy',
    'src/ca/http-client.ts',
