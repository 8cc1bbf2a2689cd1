/** All commands that need the host of the service. Their modules are loaded when they run. */

import { NOTIFICATION_TYPES } from '../../domain/notification.ts'
import { PATHS } from '../../installation/places.ts'
import {
  type Command,
  command,
  isGiven,
  type Options,
  option,
  optional,
  several,
  UsageError,
} from '../../shared/command-line.ts'
import { COMMON, PRINTING, text, uuid, whole } from '../values.ts'
import { DEV_OPTIONS } from './dev-options.ts'

export interface HostCommand extends Command {
  /** Why it does not work from another machine. */
  why: string
}

/** The help and the refusal from another machine both say why the command needs the host. */
function onHost<O extends Options>(why: string, one: Command<O>): HostCommand {
  const about = [...[one.about].flat(), `Works on the host only, with -c FILE: ${why}.`]
  return { ...command({ ...one, about }), why }
}

/** Servers, which run until a signal. */
const SERVE = [
  onHost('it is the service itself', {
    usage: 'serve',
    about: 'Run the service',
    isDefault: true,
    options: { ...DEV_OPTIONS, ...COMMON },
    examples: [`-c ${PATHS.config} serve`, '-c config.yaml --validate-only', '--dev'],
    run: async (options) => (await import('./serve.ts')).serve(options),
  }),
  onHost('it is a server of its own', {
    usage: 'perspective',
    about: 'Corroborate for other instances: an HTTPS server that speaks the Open MPIC API',
    options: COMMON,
    examples: ['-c perspective.yaml perspective'],
    run: async (options) => (await import('./serve.ts')).runPerspective(options),
  }),
]

const SETUP = onHost('it makes users, files and units of that host', {
  usage: 'setup',
  about: [
    'Set up service and signer on this host, and get a first certificate',
    'Asks, shows what it will do, and does it after one confirmation. It may be repeated, and needs no -c FILE.',
  ],
  options: {
    answers: optional('File with answers (YAML): what is in it is not asked', text),
    unattended: isGiven('Ask nothing; what is missing takes its default, and is an error where it has none'),
    'dry-run': isGiven('Show the plan and the files, and change nothing'),
    'write-answers': optional('Write the answers to a new file, and change nothing else', text),
    replace: isGiven('With --unattended: replace files that differ, and keep a copy of each'),
    'accept-audit-log': isGiven('Go on where the audit log is not whole, as after its key was lost'),
    'do-not-start': isGiven('Write and check everything, and start nothing'),
  },
  examples: ['setup', 'setup --answers answers.yaml --unattended', 'setup --dry-run'],
  run: async (options) => (await import('../../setup/setup.ts')).setUp(options),
})

const OF_DATABASE = 'it connects to the database with the password of the configuration'

const databaseCommands = () => import('./database-commands.ts')

/** The schema of the database, and indexes that searches want. */
const DATABASE = [
  onHost(OF_DATABASE, {
    usage: 'db status',
    about: 'Check the database: reachable, and at the schema of this release',
    options: PRINTING,
    examples: ['-c config.yaml db status'],
    run: async (options) => (await databaseCommands()).databaseStatus(options),
  }),
  onHost(OF_DATABASE, {
    usage: 'db migrate',
    about: [
      'Bring the database to the schema of this release, while instances of the release before serve',
      'A lock that is not granted within a second is tried again later, so that nobody queues behind it.',
    ],
    options: {
      plan: isGiven('Change nothing; show which tables it would lock, for whom and for about how long'),
      wait: option('Minutes for which each migration may try to get its locks', whole(0, 10_080), 10),
      ...PRINTING,
    },
    examples: ['-c config.yaml db migrate --plan', '-c config.yaml db migrate', '-c config.yaml db migrate --wait 120'],
    run: async (options) => (await databaseCommands()).databaseMigrate(options),
  }),
  onHost(OF_DATABASE, {
    usage: 'db rollback-point',
    about: 'Show which releases can serve on the database as it is, until when, and what going back further would lose',
    options: PRINTING,
    examples: ['-c config.yaml db rollback-point'],
    run: async (options) => (await databaseCommands()).rollbackPoint(options),
  }),
  onHost(OF_DATABASE, {
    usage: 'db new-identity',
    about: 'Make a copy of a database one of its own, which decisions recorded for the other no longer concern',
    options: PRINTING,
    examples: ['-c config.yaml db new-identity'],
    run: async (options) => (await databaseCommands()).newIdentity(options),
  }),
  onHost(OF_DATABASE, {
    usage: 'db search-indexes',
    about:
      'Create the indexes that speed up lists: certificates by issuer, key and expiry of revoked ones, orders by name, accounts by contact',
    options: {
      drop: isGiven('Drop the indexes'),
      history: isGiven('Also create the index for CSR profiles with reuse_key or renewal_window_days'),
      ...PRINTING,
    },
    examples: ['-c config.yaml db search-indexes'],
    run: async (options) => (await databaseCommands()).searchIndexes(options),
  }),
]

const RECONCILE = onHost('it compares the database with the signer of that host', {
  usage: 'reconcile',
  about: [
    'Bring back certificates and revocations that the signer has recorded and the database has not',
    'The service does so by itself, unless database.reconcile is manual. The exit code is 1 when something is missing or stays lost.',
  ],
  options: {
    'dry-run': isGiven('Say what is missing, and change nothing'),
    lost: isGiven('Say which certificates and acts of people a fail-over has lost, and what to do; asks no signer'),
    'accept-lost': isGiven('Nothing more is to be done about certificates and acts that are lost'),
    all: isGiven('Compare from the first record of the signer, not only what is new since the last comparison'),
    ...PRINTING,
  },
  examples: [
    '-c config.yaml reconcile --dry-run',
    '-c config.yaml reconcile --all',
    '-c config.yaml reconcile --lost',
    '-c config.yaml reconcile --lost --accept-lost',
  ],
  run: async (options) => (await import('./reconcile.ts')).reconcile(options),
})

const DOCTOR = onHost('it looks at files, processes and the network of that host', {
  usage: 'doctor',
  about: [
    'Check a running installation end to end, and say what is wrong and what to do; it changes nothing',
    'The exit code is 1 when something has failed. As root it sees more; docs/operations/doctor.md lists the checks.',
  ],
  options: {
    only: several('Areas to check, such as database,crl; all when absent', text),
    'signer-config': optional('Configuration of the signer; signer.yaml beside the configuration when absent', text),
    target: optional('Name of a host of a client, whose challenge ports are tried', text),
    'test-sign': isGiven('Let every issuer make a test signature, which the audit chain records'),
    strict: isGiven('The exit code is 1 for warnings, too'),
    ...PRINTING,
  },
  examples: ['-c config.yaml doctor', '-c config.yaml doctor --only proxy,crl --json'],
  run: async (options) => (await import('./doctor.ts')).doctor(options),
})

const OF_MAIL = 'it reads the mail settings and templates of that host'

const MAIL = [
  onHost(OF_MAIL, {
    usage: 'mail test',
    about: 'Send a mail through the configured server, and say what the server answers',
    options: { to: optional('Recipient', text), ...PRINTING },
    examples: ['-c config.yaml mail test --to ops@example.com'],
    async run({ to, ...options }) {
      if (to === undefined) throw new UsageError('--to: is missing; name the recipient')
      return (await import('./mail.ts')).sendTestMail(options, to)
    },
  }),
  onHost(OF_MAIL, {
    usage: 'mail preview <type>',
    about: `Print a mail with sample values. Types: ${NOTIFICATION_TYPES.join(', ')}`,
    options: { html: isGiven('The HTML part instead of the text'), ...PRINTING },
    examples: ['-c config.yaml mail preview expiration_warning'],
    run: async (options, [type = '']) => (await import('./mail.ts')).previewMail(options, type),
  }),
]

const CERTIFICATE = [
  onHost('it speaks to the signer and to other CAs with the secrets of that host', {
    usage: 'ca test-sign',
    about: [
      'Test every CA backend: an ephemeral key, its CSR, profile, build, lint and signature',
      'The signer signs a certificate for test-sign.invalid, of one hour, which is recorded and revoked.',
      'Others are asked for one with --issue only; it is recorded and revoked as well.',
    ],
    options: {
      issue: isGiven('Ask the backends that are not the signer for a real certificate, and have it revoked'),
      name: optional('With --issue: its DNS name; test-sign.invalid when absent', text),
      profile: optional('Profile of the certificate; the first that a backend serves when absent', text),
      backend: optional('Only this one, as ca.backend or ca.failover.backends names it', text),
      ...PRINTING,
    },
    examples: ['-c config.yaml ca test-sign', '-c config.yaml ca test-sign --issue --backend external'],
    run: async (options) => (await import('./test-sign.ts')).testSign(options),
  }),
]

const IMPORTING = {
  'dry-run': isGiven('Change nothing; say what would be taken over'),
  ...PRINTING,
}
const FROM = optional(
  'Its PostgreSQL, as postgres://user@host/database; PGPASSWORD or ~/.pgpass has the password',
  text,
)
const OF_IMPORT = 'it reads what another server has left, with HMAC keys, and writes to the database'
const BOOKS =
  'It prints how many were read, are new, were known, and why some were skipped. The exit code is 1 when some were.'

/** Imports from another ACME server or CA. */
const IMPORT = [
  onHost(OF_IMPORT, {
    usage: 'import acmeeh',
    about: [
      'Take over accounts, EAB keys, certificates, revocations, grants, administrators and the audit log of ACMEEH 2.1',
      BOOKS,
    ],
    options: {
      from: FROM,
      'base-path': optional('Path of its server.external_url and api.base_path, such as /acme, where it had one', text),
      ...IMPORTING,
    },
    examples: ['-c config.yaml import acmeeh --from postgres://reader@db.example.org/acmeeh --dry-run'],
    run: async (options) => (await import('./imports.ts')).importAcmeeh(options),
  }),
  onHost(OF_IMPORT, {
    usage: 'import step-ca',
    about: [
      'Take over accounts, EAB keys, certificates and revocations of step-ca, or of the ACME server of Caddy',
      BOOKS,
    ],
    options: {
      from: FROM,
      dump: optional('Or a dump of its database, made by deploy/import/step-ca-dump', text),
      provisioner: several('Name of an ACME provisioner, where the records do not have it', text),
      ...IMPORTING,
    },
    examples: [
      '-c config.yaml import step-ca --dump step-ca.jsonl --provisioner acme --dry-run',
      '-c config.yaml import step-ca --from postgres://reader@db.example.org/stepca',
    ],
    run: async (options) => (await import('./imports.ts')).importStepCa(options),
  }),
  onHost(OF_IMPORT, {
    usage: 'import ejbca',
    about: ['Take over certificates and revocations of EJBCA', BOOKS],
    options: {
      from: FROM,
      csv: optional('Or its table CertificateData as CSV or with tabs; the first line names the columns', text),
      ...IMPORTING,
    },
    examples: ['-c config.yaml import ejbca --from postgres://reader@db.example.org/ejbca --dry-run'],
    run: async (options) => (await import('./imports.ts')).importEjbca(options),
  }),
  onHost('it reads files of that host', {
    usage: 'import certificates <path>',
    about: [
      'Take over certificates in files and folders: PEM, DER, and folders of openssl ca or easy-rsa with their index.txt',
      'Also those that are missing in a restored database. Several paths may follow.',
      BOOKS,
    ],
    options: { account: optional('Id of the account that owns them', uuid), ...IMPORTING },
    examples: [
      '-c config.yaml import certificates /etc/easy-rsa/pki --dry-run',
      '-c config.yaml import certificates www.pem mail.pem --account 01938c4e-…',
    ],
    further: true,
    run: async (options, paths) => (await import('./imports.ts')).importCertificates(options, paths),
  }),
]

const ARCHIVE = onHost('it reads the files of that host', {
  usage: 'certificates archive verify <folder>',
  about: [
    'Check every file of an archive of expired certificates against its manifest, and the manifest as a chain',
    'A file that the manifest does not name is compared with the other files and with the database of the configuration.',
  ],
  options: PRINTING,
  examples: [`certificates archive verify ${PATHS.serviceState}/archive`],
  run: async (options, [folder = '']) => (await import('./archive-commands.ts')).verifyFolder(folder, options),
})

/** Commands with secrets that stay on the host. */
const ADMINISTRATION = [
  onHost('hashes of passwords do not go over the network', {
    usage: 'users import <file>',
    about: 'Import users with their password hashes: a JSON array, or one JSON object a line',
    options: PRINTING,
    examples: ['-c config.yaml users import users.json'],
    run: async (options, [file = '']) => (await import('./secret-commands.ts')).importUserFile(options, file),
  }),
  onHost('whoever could do this from elsewhere could do without the passkey', {
    usage: 'users reset-second-factor <username>',
    about: 'Remove the passkeys of a user who has lost them, and end all sessions and API tokens',
    options: PRINTING,
    examples: ['-c config.yaml users reset-second-factor ann'],
    run: async (options, [username = '']) => (await import('./secret-commands.ts')).resetFactorOf(options, username),
  }),
  onHost('both secrets stay on that host', {
    usage: 'eab reseal',
    about: 'Seal the stored HMAC keys under the secret of the configuration, after that has changed',
    options: {
      'old-secret-file': optional('File with the former admin_api.token_secret or acme.eab_key_file', text),
      ...PRINTING,
    },
    examples: ['-c config.yaml eab reseal --old-secret-file former-secret'],
    async run({ 'old-secret-file': file, ...options }) {
      if (file === undefined) throw new UsageError('eab reseal needs --old-secret-file')
      return (await import('./secret-commands.ts')).resealKeys(options, file)
    },
  }),
]

const inspect = (usage: string, about: string, inspector: 'inspectOrder' | 'inspectCertificate' | 'inspectAccount') =>
  onHost('it reads the database without the Admin API; elsewhere use orders, certificates or accounts with show', {
    usage: `inspect ${usage}`,
    about: `Show ${about}`,
    options: PRINTING,
    examples: [`-c config.yaml inspect ${usage}`],
    run: async (options, [key = '']) => (await import('./inspect.ts'))[inspector](options, key),
  })

const INSPECT = [
  inspect('order <uuid>', 'an order with its authorizations and challenges', 'inspectOrder'),
  inspect('certificate <uuid-or-serial>', 'a certificate', 'inspectCertificate'),
  inspect('account <uuid>', 'an account with its contacts and order counts', 'inspectAccount'),
]

export const HOST_COMMANDS: readonly HostCommand[] = [
  ...SERVE,
  SETUP,
  ...DATABASE,
  RECONCILE,
  DOCTOR,
  ...MAIL,
  ...CERTIFICATE,
  ...IMPORT,
  ARCHIVE,
  ...ADMINISTRATION,
  ...INSPECT,
]
