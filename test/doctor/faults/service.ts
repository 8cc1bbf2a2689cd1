/** The service itself, and the services beside it. */

import { mkdirSync } from 'node:fs'
import { migrate } from '../../../src/store/schema/migrate.ts'
import { settingsFor } from '../../store/support.ts'
import { freePort } from '../../support/free-port.ts'
import { startDisk } from '../../support/hosts/small-disk.ts'
import { at, type Fault } from './fault.ts'

export const SERVICE: Fault[] = [
  {
    name: 'signing is stopped',
    id: 'service.switches',
    mend: /signing resume/,
    sql: {
      plant: [`INSERT INTO server_settings (key, value) VALUES ('signing_stopped', '{"enabled": true, "by": "ops"}')`],
      undo: [`DELETE FROM server_settings WHERE key = 'signing_stopped'`],
    },
  },
  {
    name: 'maintenance mode was forgotten',
    id: 'service.switches',
    mend: /maintenance off/,
    sql: {
      plant: [`INSERT INTO server_settings (key, value) VALUES ('maintenance_mode', '{"enabled": true, "by": "ops"}')`],
      undo: [`DELETE FROM server_settings WHERE key = 'maintenance_mode'`],
    },
  },
  {
    name: 'a background task fails',
    id: 'service.tasks',
    mend: /workers/,
    sql: {
      plant: [
        `INSERT INTO background_runs (task, instance_id, last_run_at, next_run_at, errors, last_error, failed_at) VALUES ('planted', 1, now(), now(), 1, 'disk full', now())`,
      ],
      undo: [`DELETE FROM background_runs WHERE task = 'planted'`],
    },
  },
  {
    name: 'the service runs on another database',
    id: 'service.instances',
    mend: /database\.database/,
    async config(stand) {
      await stand.asSuperuser('DROP DATABASE IF EXISTS other', 'CREATE DATABASE other OWNER chancery')
      await migrate(settingsFor({ host: '127.0.0.1', port: stand.serverPort, user: 'chancery', database: 'other' }, 1))
      return { 'database.database': 'other' }
    },
    blinds: true,
  },
  {
    name: 'more files are wanted than may be open',
    id: 'service.descriptors',
    mend: /LimitNOFILE=/,
    // In the file itself, whose process is found by its name.
    plant: async (stand) => stand.replaceConfig({ 'server.overload.max_connections': 60_000_000 }),
  },
]

export const OTHERS: Fault[] = [
  {
    name: 'a perspective is gone',
    id: 'upstream.reachable',
    mend: /challenges\.perspectives\[0\]\.url/,
    config: async () => ({
      'challenges.perspectives': [
        { name: 'far', url: `https://localhost:${await freePort()}`, token: 'a token of a test' },
      ],
    }),
  },
  {
    name: 'a receiver of audit events has a certificate of an unknown CA',
    id: 'upstream.reachable',
    mend: /NODE_EXTRA_CA_CERTS/,
    config: ({ ports }) => ({ 'audit_export.webhook_url': `https://localhost:${ports.https}/hook` }),
  },
  {
    name: 'the disk of the archive is nearly full',
    id: 'disk.archive',
    mend: /larger disk/,
    async config(stand) {
      mkdirSync(at(stand, 'small'), { recursive: true })
      const disk = await startDisk(at(stand, 'small'), 1_000_000)
      stand.later(() => disk.stop())
      return { 'retention.archive_dir': disk.folder }
    },
  },
  {
    name: 'the folder of the audit records is gone',
    id: 'disk.log',
    mend: /^install -d .*gone; then restart/,
    config: (stand) => ({ 'logging.audit': { enabled: true, file: at(stand, 'gone/audit.jsonl') } }),
  },
  {
    name: 'a credential ends unused',
    id: 'credentials.accounts',
    mend: /eab create/,
    sql: {
      plant: [
        `INSERT INTO eab_credentials (id, kid, hmac_key, expires_at) VALUES (gen_random_uuid(), 'fleet', 'x', now() + interval '2 days')`,
      ],
      undo: [`DELETE FROM eab_credentials WHERE kid = 'fleet'`],
    },
  },
  {
    name: 'an API token has expired',
    id: 'credentials.tokens',
    mend: /tokens create/,
    sql: {
      plant: [
        `INSERT INTO admin_api_tokens (id, name, role, token_hash, created_by, expires_at) SELECT gen_random_uuid(), 'ansible', 'admin', 'x', id, now() - interval '1 day' FROM admin_users LIMIT 1`,
      ],
      undo: [`DELETE FROM admin_api_tokens WHERE name = 'ansible'`],
    },
  },
  {
    name: 'no administrator is enabled',
    id: 'credentials.administrators',
    mend: /users create/,
    sql: { plant: ['UPDATE admin_users SET enabled = false'], undo: ['UPDATE admin_users SET enabled = true'] },
  },
  {
    name: 'a CA that the service trusts ends soon',
    id: 'credentials.certificates',
    mend: /planted-ca\.pem/,
    config: async (stand) => ({
      'smtp.tls': 'starttls',
      'smtp.ca_file': await stand.certificate('planted-ca', { days: 3 }),
    }),
  },
  {
    name: 'the mail server is gone',
    id: 'mail.server',
    mend: /smtp\.host/,
    config: async () => ({ 'smtp.port': await freePort() }),
  },
  {
    name: 'the mail server does not encrypt',
    id: 'mail.server',
    mend: /tls/,
    config: { 'smtp.tls': 'starttls' },
  },
]
