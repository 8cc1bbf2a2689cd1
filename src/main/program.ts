/** The commands of chancery: names, options and examples as `--help` shows them, and the function behind each. */

import path from 'node:path'
import sade, { type Sade } from 'sade'
import type { Config } from '../config/schema.ts'
import { requireUws } from '../http/uws-check.ts'
import { allowToAccount, disallowToAccount, listAllowed } from './commands/account.ts'
import { testSign } from './commands/ca.ts'
import { importCertificates } from './commands/certificate.ts'
import { perspectiveConfig, serviceConfig, signerConfig } from './commands/checked-config.ts'
import { loadConfigFile, readConfigFile, UsageError } from './commands/config-file.ts'
import { rebuildCrls } from './commands/crl.ts'
import { assignProfile, createProfile, listProfiles } from './commands/csr-profile.ts'
import { databaseMigrate, databaseStatus } from './commands/db.ts'
import { createCredential, listCredentials, revokeCredential } from './commands/eab.ts'
import { inspectAccount, inspectCertificate, inspectOrder } from './commands/inspect.ts'
import { inspectAccounts, inspectCertificates, inspectOrders, type ListFlags } from './commands/inspect-lists.ts'
import { configOf, type GlobalOptions, portOf, type Text, textOf, valuesOf } from './commands/option-values.ts'
import { runPerspective } from './commands/perspective.ts'
import {
  type AdviceFlags,
  ANY,
  AT_ONCE,
  adviseRenewal,
  clearAdvice,
  NO_EXPLANATION,
  type SelectionFlags,
} from './commands/renewal.ts'
import { run, runWithConfig } from './commands/run.ts'
import { searchIndexes } from './commands/search-indexes.ts'
import { runService } from './commands/serve.ts'
import { throwSwitch } from './commands/switches.ts'
import { acceptTerms } from './commands/terms.ts'
import { runEmbedded } from './dev.ts'
import { VERSION } from './version.ts'

interface DevFlags {
  'data-dir'?: string
  port?: number
  'http01-port'?: number
  'dns01-port'?: number
  validator?: Text
  'tlsalpn01-port'?: number
  'log-level'?: Config['logging']['level']
  workers?: number
  crl?: boolean
}

export const program = sade('chancery')
  .version(VERSION)
  .describe([
    'An ACME certificate authority server (RFC 8555).',
    '',
    'Exit codes: 0 done; 1 something failed or is wrong; 2 wrong usage.',
    'SIGTERM or SIGINT: finish what is in flight, then stop. SIGHUP: read the configuration file again.',
    'Ports and data folder of the development mode: chancery serve --help',
  ])
  .option('-c, --config', 'Configuration file (YAML or JSON); SERVICE_CONFIG when absent')
  .option('--debug', 'Print stack traces of errors, and log at DEBUG')
  .option('--validate-only', 'Check the configuration file, print what it says in short, and exit')
  .option('--dev', 'Development: without -c, an embedded PostgreSQL and a CA of its own')

program
  .command('serve', 'Run the service', { default: true })
  .option('--data-dir', 'With --dev: where the CA and the database live', process.env.CHANCERY_DATA ?? 'data')
  .option('--port', 'With --dev: port of the ACME interface', 8443)
  .option('--http01-port', 'With --dev: port that http-01 asks', 5002)
  .option(
    '--dns01-port',
    'With --dev: offer dns-01, dns-account-01 and dns-persist-01, and ask a name server at this port of 127.0.0.1 about .test',
  )
  .option('--validator', 'With --dev: offer the method of a validator module, ./path/file.js#ExportName')
  .option('--tlsalpn01-port', 'With --dev: port that tls-alpn-01 asks', 5001)
  .option('--workers', 'With --dev: number of front threads')
  .option('--crl', 'With --dev: publish a CRL, and name it in certificates')
  .option('--log-level', 'With --dev: DEBUG, INFO, WARNING, ERROR or CRITICAL', 'WARNING')
  .example('-c /etc/chancery/config.yaml serve')
  .example('-c config.yaml --validate-only')
  .example('--dev')
  .action(run(serveCommand, 'further'))

program
  .command('perspective', 'Corroborate for other instances: an HTTPS server that speaks the Open MPIC API')
  .example('-c perspective.yaml perspective')
  .action(
    run(async (options: GlobalOptions) => runPerspective(await perspectiveConfig(options)), 'named', 'perspective'),
  )

program
  .command('db status', 'Check the database: reachable, and at the schema of this release')
  .example('-c config.yaml db status')
  .action(runWithConfig(databaseStatus))

program
  .command('db migrate', 'Bring the database to the schema of this release')
  .example('-c config.yaml db migrate')
  .action(runWithConfig(databaseMigrate))

program
  .command('db search-indexes', 'Make the indexes that `inspect` by name, issuer and contact is quick with')
  .option('--drop', 'Drop them')
  .example('-c config.yaml db search-indexes')
  .action(
    runWithConfig((config, options: GlobalOptions & { drop?: boolean }) =>
      searchIndexes(config, { drop: options.drop === true }),
    ),
  )

program
  .command('ca test-sign', 'Make one test signature with every issuer and verify it')
  .example('-c config.yaml ca test-sign')
  .action(run(async (options: GlobalOptions) => testSign(await signerConfig(options))))

/** Defaults are texts, so that digits stay digits: a serial number is no number. */
function withSelection(command: Sade): Sade {
  return command
    .option('--serial', 'Serial number in hexadecimal; may be given several times', ANY)
    .option('--issuer', 'SHA-256 fingerprint of the issuer certificate', ANY)
    .option('--issued-before', 'Date or RFC 3339 time', ANY)
    .option('--all', 'Every certificate that has not expired', false)
}

withSelection(program.command('renewal advise', 'Tell clients to renew certificates now (RFC 9773)'))
  .option('--window-end', 'Date or RFC 3339 time until which the renewals spread', AT_ONCE)
  .option('--explanation', 'URL of a page that says why', NO_EXPLANATION)
  .example('-c config.yaml renewal advise --serial 0a1b2c --explanation https://ca.example/incident')
  .example('-c config.yaml renewal advise --issued-before 2026-01-31 --window-end 2026-02-03')
  .action(runWithConfig((config, options: GlobalOptions & AdviceFlags) => adviseRenewal(config, options)))

withSelection(program.command('renewal clear', 'Take such advice back'))
  .example('-c config.yaml renewal clear --all')
  .action(runWithConfig((config, options: GlobalOptions & SelectionFlags) => clearAdvice(config, options)))

program
  .command(
    'certificate import <file>',
    'Record certificates (PEM) that a restored database has forgotten; several may follow',
  )
  .option('--account', 'Account id: whose they are')
  .example('-c config.yaml certificate import www.pem mail.pem --account 01938c4e-…')
  .action(
    runWithConfig(
      (config, file: string, options: GlobalOptions & FurtherWords & { account?: Text }) =>
        importCertificates(config, [file, ...options._], textOf(options.account, '--account')),
      'further',
    ),
  )

program
  .command('crl rebuild', 'Have a new CRL built and wait until it is published (needs crl.enabled)')
  .example('-c config.yaml crl rebuild')
  .action(runWithConfig(rebuildCrls))

/** Switches of the whole installation: the word that turns each on, the one that turns it off, and what `status` says. */
const SWITCHES = {
  maintenance: {
    stored: 'maintenance',
    on: ['on', 'Refuse new orders and pre-authorizations on all instances; what was begun goes on'],
    off: ['off', 'Take new orders again'],
    status: 'Say whether the service is in maintenance',
  },
  signing: {
    stored: 'stopSigning',
    on: ['stop', 'Stop all signing on all instances within two seconds: certificates and CRLs'],
    off: ['resume', 'Sign again; what was begun is finished'],
    status: 'Say whether signing is stopped',
  },
} as const
for (const [name, { stored, on, off, status }] of Object.entries(SWITCHES))
  for (const [word, sentence, position] of [
    [...on, true],
    [...off, false],
    ['status', status, undefined],
  ] as const)
    program
      .command(`${name} ${word}`, sentence)
      .example(`-c config.yaml ${name} ${word}`)
      .action(runWithConfig((config) => throwSwitch(config, stored, position)))

const INSPECTIONS = {
  'order <uuid>': { inspect: inspectOrder, about: 'an order with its authorizations and challenges' },
  'certificate <uuid-or-serial>': { inspect: inspectCertificate, about: 'a certificate' },
  'account <uuid>': { inspect: inspectAccount, about: 'an account with its contacts and order counts' },
}
for (const [usage, { inspect, about }] of Object.entries(INSPECTIONS)) {
  program
    .command(`inspect ${usage}`, `Show ${about}`)
    .option('--json', 'Print JSON')
    .example(`-c config.yaml inspect ${usage}`)
    .action(
      runWithConfig((config, key: string, options: GlobalOptions & { json?: boolean }) =>
        inspect(config, key, { json: options.json === true }),
      ),
    )
}

const LISTS = {
  certificates: {
    inspect: inspectCertificates,
    options: [
      ['account', 'Account id'],
      ['name', 'One of its names'],
      ['serial', 'Serial number in hexadecimal'],
      ['status', 'active, revoked or expired'],
      ['issuer', 'SHA-256 fingerprint of the issuer certificate'],
      ['expires-after', 'Date or RFC 3339 time; soonest first'],
      ['expires-before', 'Date or RFC 3339 time; soonest first'],
      ['issued-after', 'Date or RFC 3339 time'],
      ['issued-before', 'Date or RFC 3339 time'],
    ],
    example: '--status active --expires-before 2026-02-01',
  },
  orders: {
    inspect: inspectOrders,
    options: [
      ['account', 'Account id'],
      ['name', 'One of its identifiers'],
      ['status', 'pending, ready, processing, valid or invalid'],
      ['created-after', 'Date or RFC 3339 time'],
      ['created-before', 'Date or RFC 3339 time'],
    ],
    example: '--account 01938c4e-… --status invalid',
  },
  accounts: {
    inspect: inspectAccounts,
    options: [
      ['status', 'valid, deactivated or revoked'],
      ['contact', 'One of its contacts, or a mail address'],
      ['eab', 'Key id of the credential it was registered with'],
    ],
    example: '--contact ops@example.com',
  },
} as const
for (const [name, { inspect, options, example }] of Object.entries(LISTS)) {
  const command = program.command(`inspect ${name}`, `List ${name} by filters, newest first, a page at a time`)
  for (const [flag, sentence] of options) command.option(`--${flag}`, sentence)
  command
    .option('--after', 'Where the page before ended')
    .option('--limit', 'Rows of a page, at most 1000', 50)
    .option(
      '--to-end',
      'Where filters leave few rows: search until the page is full or the list ends, however long it takes',
    )
    .option('--json', 'Print JSON')
    .example(`-c config.yaml inspect ${name} ${example}`)
    .action(runWithConfig((config, flags: GlobalOptions & ListFlags) => inspect(config, listFlags(flags))))
}

/** Flags of lists that have a text for a value. */
export const LIST_TEXTS = [
  ...Object.values(LISTS).flatMap(({ options }) => options.map(([flag]) => flag)),
  'after',
] as const

/** Each once, as typed. */
function listFlags(flags: GlobalOptions & ListFlags): ListFlags {
  for (const flag of LIST_TEXTS) textOf(flags[flag] as Text | undefined, `--${flag}`)
  return flags
}

interface CredentialFlags {
  kid?: Text
  label?: Text
  allow?: Text
  'csr-profile'?: Text
  profile?: Text
  preapprove?: Text
}

interface AssignmentFlags {
  account?: Text
  eab?: Text
}

/** Words beyond those that a command names. */
interface FurtherWords {
  _: string[]
}

program
  .command('eab create', 'Make a credential of external account binding and print its HMAC key, once')
  .option('--kid', 'Key id, by which the client names the credential')
  .option('--label', 'A note for the operator')
  .option('--allow', 'Identifiers its accounts may ask for: a name, *.name, an address, a network; several may follow')
  .option('--csr-profile', 'Name of the CSR profile its accounts get')
  .option(
    '--profile',
    'CA profile its accounts may order, the one for orders without a choice first; repeat for several',
  )
  .option('--preapprove', 'Network from which allowed identifiers need no challenge; repeat for several')
  .example("-c config.yaml eab create --kid team-a --allow '*.a.example.com' 10.1.0.0/16")
  .action(
    runWithConfig(
      (config, options: GlobalOptions & CredentialFlags & FurtherWords) =>
        createCredential(config, {
          profiles: valuesOf(options.profile),
          preapprove: valuesOf(options.preapprove),
          kid: textOf(options.kid, '--kid'),
          label: textOf(options.label, '--label'),
          allow: [...valuesOf(options.allow), ...furtherIdentifiers(options)],
          csrProfile: textOf(options['csr-profile'], '--csr-profile'),
        }),
      'further',
    ),
  )

program
  .command('eab list', 'List the credentials of external account binding, newest first')
  .example('-c config.yaml eab list')
  .action(runWithConfig(listCredentials))

program
  .command('eab revoke <kid>', 'Revoke a credential, the accounts registered with it and their authorizations')
  .example('-c config.yaml eab revoke team-a')
  .action(runWithConfig((config, kid: string) => revokeCredential(config, kid)))

program
  .command('account allow <id>', 'Allow identifiers to an account: names, *.name, addresses, networks')
  .example("-c config.yaml account allow 01938c4e-… host.example.com '*.a.example.com'")
  .action(
    runWithConfig(
      (config, id: string, options: GlobalOptions & FurtherWords) => allowToAccount(config, id, options._),
      'further',
    ),
  )

program
  .command('account disallow <id>', 'Take allowed identifiers away from an account')
  .example('-c config.yaml account disallow 01938c4e-… host.example.com')
  .action(
    runWithConfig(
      (config, id: string, options: GlobalOptions & FurtherWords) => disallowToAccount(config, id, options._),
      'further',
    ),
  )

program
  .command('account allowed <id>', 'List the identifiers allowed to an account')
  .example('-c config.yaml account allowed 01938c4e-…')
  .action(runWithConfig((config, id: string) => listAllowed(config, id)))

program
  .command('terms accept', 'Record that an account, or with --all every one, agrees to tos.version')
  .option('--account', 'Account id, the last part of the account URL')
  .option('--all', 'Every account')
  .example('-c config.yaml terms accept --account 01938c4e-…')
  .action(
    run(async (options: GlobalOptions & { account?: Text; all?: boolean }) => {
      const account = textOf(options.account, '--account')
      if ((account === undefined) === (options.all !== true)) throw new UsageError('name either --account or --all')
      return acceptTerms(await readConfigFile(configOf(options)), account)
    }),
  )

program
  .command('csr-profile create <file>', 'Store a CSR profile: YAML or JSON with name, description and profile_data')
  .example('-c config.yaml csr-profile create servers.yaml')
  .action(runWithConfig((config, file: string) => createProfile(config, file)))

program
  .command('csr-profile list', 'List the CSR profiles')
  .example('-c config.yaml csr-profile list')
  .action(runWithConfig(listProfiles))

program
  .command('csr-profile assign <name>', 'Give a CSR profile to an account, or to a credential and its accounts')
  .option('--account', 'Account id, the last part of the account URL')
  .option('--eab', 'Key id of a credential of external account binding')
  .example('-c config.yaml csr-profile assign servers --eab team-a')
  .action(
    runWithConfig((config, name: string, options: GlobalOptions & AssignmentFlags) =>
      assignProfile(config, name, {
        account: textOf(options.account, '--account'),
        eab: textOf(options.eab, '--eab'),
      }),
    ),
  )

async function serveCommand(options: GlobalOptions & DevFlags): Promise<number> {
  // The command that runs when no other is named: a mistyped one must not start a service.
  if (options._.length > 0) throw new UsageError(`unknown command: ${options._.join(' ')}`)
  await requireUws()
  if (options.dev && options.config === undefined) {
    return runEmbedded({
      dataDir: path.resolve(options['data-dir'] ?? 'data'),
      port: portOf(options.port, '--port'),
      http01Port: portOf(options['http01-port'], '--http01-port'),
      validator: textOf(options.validator, '--validator'),
      dns01Port: options['dns01-port'] === undefined ? undefined : portOf(options['dns01-port'], '--dns01-port'),
      tlsAlpn01Port: portOf(options['tlsalpn01-port'], '--tlsalpn01-port'),
      logLevel: options.debug ? 'DEBUG' : (options['log-level'] ?? 'WARNING'),
      workers: options.workers,
      crl: options.crl === true,
    })
  }
  const config = await serviceConfig(options)
  return runService(withFlags(config, options), {
    async reread() {
      const loaded = await loadConfigFile(configOf(options), options.dev)
      return loaded.ok ? { ...loaded, config: withFlags(loaded.config, options) } : loaded
    },
  })
}

/** What the command line says about the log stands above what the file says. */
function withFlags(config: Config, { debug, dev }: GlobalOptions): Config {
  const level = debug ? ('DEBUG' as const) : config.logging.level
  const format = dev ? ('human' as const) : config.logging.format
  return { ...config, logging: { ...config.logging, level, format } }
}

/** Words behind --allow. Where another flag takes several values, too, it is not said whose they are. */
function furtherIdentifiers({ _: words, profile, preapprove }: CredentialFlags & FurtherWords): string[] {
  if (words.length > 0 && (profile !== undefined || preapprove !== undefined))
    throw new UsageError(
      `${words[0]} has no flag: beside --profile and --preapprove, give --allow once for each identifier`,
    )
  return words
}
