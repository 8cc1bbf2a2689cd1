/**
 * The commands of chancery: names, options, examples and functions.
 *
 * A command's module is loaded when the command runs. Loading all of them would take ten times as
 * long as `--help` needs.
 */

import sade, { type Sade } from 'sade'
import { VERSION } from '../main/version.ts'
import { UsageError } from './commands/errors.ts'
import type { ListFlags } from './commands/inspect-lists.ts'
import type { PageFlags } from './commands/list-output.ts'
import { type GlobalOptions, type Text, textOf, valuesOf } from './commands/option-values.ts'
import { type AdviceFlags, ANY, AT_ONCE, NO_EXPLANATION, type SelectionFlags } from './commands/renewal-flags.ts'
import { run, runWithConfig } from './commands/run.ts'
import type { DevFlags } from './commands/serve.ts'

/**
 * Flags without a value. The parser would take a word behind one for its value (command-line.ts).
 */
export const LONE_FLAGS = new Set(['-v', '--version', '-h', '--help'])

function lone(flag: string): string {
  LONE_FLAGS.add(flag)
  return flag
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
  .option(lone('--debug'), 'Print stack traces of errors, and log at DEBUG')
  .option(lone('--validate-only'), 'Check the configuration file, print what it says in short, and exit')
  .option(lone('--dev'), 'Development: without -c, an embedded PostgreSQL and a CA of its own')

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
  .option(lone('--crl'), 'With --dev: publish a CRL, and name it in certificates')
  .option('--crl-port', 'With --dev and --crl: port that serves the CRL over plain HTTP', 5003)
  .option('--log-level', 'With --dev: DEBUG, INFO, WARNING, ERROR or CRITICAL', 'WARNING')
  .example('-c /etc/chancery/config.yaml serve')
  .example('-c config.yaml --validate-only')
  .example('--dev')
  .action(
    run(async (options: GlobalOptions & DevFlags) => (await import('./commands/serve.ts')).serve(options), 'further'),
  )

program
  .command('perspective', 'Corroborate for other instances: an HTTPS server that speaks the Open MPIC API')
  .example('-c perspective.yaml perspective')
  .action(
    run(
      async (options: GlobalOptions) => (await import('./commands/perspective.ts')).runPerspective(options),
      'named',
      'perspective',
    ),
  )

program
  .command('db status', 'Check the database: reachable, and at the schema of this release')
  .example('-c config.yaml db status')
  .action(runWithConfig(async (config) => (await import('./commands/db.ts')).databaseStatus(config)))

program
  .command('db migrate', 'Bring the database to the schema of this release')
  .example('-c config.yaml db migrate')
  .action(runWithConfig(async (config) => (await import('./commands/db.ts')).databaseMigrate(config)))

program
  .command('db search-indexes', 'Make the indexes that `inspect` by name, issuer and contact is quick with')
  .option(lone('--drop'), 'Drop them')
  .example('-c config.yaml db search-indexes')
  .action(
    runWithConfig(async (config, options: GlobalOptions & { drop?: boolean }) =>
      (await import('./commands/search-indexes.ts')).searchIndexes(config, { drop: options.drop === true }),
    ),
  )

program
  .command('ca test-sign', 'Make one test signature with every issuer and verify it')
  .example('-c config.yaml ca test-sign')
  .action(run(async (options: GlobalOptions) => (await import('./commands/ca.ts')).testSign(options)))

/** Defaults are texts, so that the parser does not turn serial numbers into numbers. */
function withSelection(command: Sade): Sade {
  return command
    .option('--serial', 'Serial number in hexadecimal; may be given several times', ANY)
    .option('--issuer', 'SHA-256 fingerprint of the issuer certificate', ANY)
    .option('--issued-before', 'Date or RFC 3339 time', ANY)
    .option(lone('--all'), 'Every certificate that has not expired', false)
}

withSelection(program.command('renewal advise', 'Tell clients to renew certificates now (RFC 9773)'))
  .option('--window-end', 'Date or RFC 3339 time until which the renewals spread', AT_ONCE)
  .option('--explanation', 'URL of a page that says why', NO_EXPLANATION)
  .example('-c config.yaml renewal advise --serial 0a1b2c --explanation https://ca.example/incident')
  .example('-c config.yaml renewal advise --issued-before 2026-01-31 --window-end 2026-02-03')
  .action(
    runWithConfig(
      async (config, options: GlobalOptions & AdviceFlags) =>
        (await import('./commands/renewal.ts')).adviseRenewal(config, options),
      '--serial',
    ),
  )

withSelection(program.command('renewal clear', 'Take such advice back'))
  .example('-c config.yaml renewal clear --all')
  .action(
    runWithConfig(
      async (config, options: GlobalOptions & SelectionFlags) =>
        (await import('./commands/renewal.ts')).clearAdvice(config, options),
      '--serial',
    ),
  )

program
  .command(
    'certificate import <file>',
    'Record certificates (PEM) that a restored database has forgotten; several may follow',
  )
  .option('--account', 'Account id: whose they are')
  .example('-c config.yaml certificate import www.pem mail.pem --account 01938c4e-…')
  .action(
    runWithConfig(async (config, file: string, options: GlobalOptions & FurtherWords & { account?: Text }) => {
      const { importCertificates } = await import('./commands/certificate.ts')
      return importCertificates(config, [file, ...options._], textOf(options.account, '--account'))
    }, 'further'),
  )

program
  .command('crl rebuild', 'Have a new CRL built and wait until it is published (needs crl.enabled)')
  .example('-c config.yaml crl rebuild')
  .action(runWithConfig(async (config) => (await import('./commands/crl.ts')).rebuildCrls(config)))

/**
 * Switches of the whole installation: the words that turn each on and off, and the text of
 * `status`.
 */
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
      .action(
        runWithConfig(async (config) => (await import('./commands/switches.ts')).throwSwitch(config, stored, position)),
      )

const INSPECTIONS = {
  'order <uuid>': { inspect: 'inspectOrder', about: 'an order with its authorizations and challenges' },
  'certificate <uuid-or-serial>': { inspect: 'inspectCertificate', about: 'a certificate' },
  'account <uuid>': { inspect: 'inspectAccount', about: 'an account with its contacts and order counts' },
} as const
for (const [usage, { inspect, about }] of Object.entries(INSPECTIONS)) {
  program
    .command(`inspect ${usage}`, `Show ${about}`)
    .option(lone('--json'), 'Print JSON')
    .example(`-c config.yaml inspect ${usage}`)
    .action(
      runWithConfig(async (config, key: string, options: GlobalOptions & { json?: boolean }) =>
        (await import('./commands/inspect.ts'))[inspect](config, key, { json: options.json === true }),
      ),
    )
}

const LISTS = {
  certificates: {
    inspect: 'inspectCertificates',
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
    inspect: 'inspectOrders',
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
    inspect: 'inspectAccounts',
    options: [
      ['status', 'valid, deactivated or revoked'],
      ['contact', 'One of its contacts, or a mail address'],
      ['eab', 'Key id of the credential it was registered with'],
    ],
    example: '--contact ops@example.com',
  },
} as const
const AFTER = ['--after', 'Where the page before ended'] as const
const LIMIT = ['--limit', 'Rows of a page, at most 1000', 50] as const
for (const [name, { inspect, options, example }] of Object.entries(LISTS)) {
  const command = program.command(`inspect ${name}`, `List ${name} by filters, newest first, a page at a time`)
  for (const [flag, sentence] of options) command.option(`--${flag}`, sentence)
  command
    .option(...AFTER)
    .option(...LIMIT)
    .option(
      lone('--to-end'),
      'Where filters leave few rows: search until the page is full or the list ends, however long it takes',
    )
    .option(lone('--json'), 'Print JSON')
    .example(`-c config.yaml inspect ${name} ${example}`)
    .action(
      runWithConfig(async (config, flags: GlobalOptions & ListFlags) =>
        (await import('./commands/inspect-lists.ts'))[inspect](config, listFlags(flags)),
      ),
    )
}

/** Flags of lists with a text as value. */
export const LIST_TEXTS = [
  ...Object.values(LISTS).flatMap(({ options }) => options.map(([flag]) => flag)),
  'after',
] as const

/** Flags as typed, none of them twice. */
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

/** Words behind those that a command names. */
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
      async (config, options: GlobalOptions & CredentialFlags & FurtherWords) =>
        (await import('./commands/eab.ts')).createCredential(config, {
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
  .command('eab list', 'List the credentials of external account binding, newest first, a page at a time')
  .option(...AFTER)
  .option(...LIMIT)
  .option('--json', 'Print JSON')
  .example('-c config.yaml eab list')
  .action(
    runWithConfig(async (config, flags: GlobalOptions & PageFlags) =>
      (await import('./commands/eab-list.ts')).listCredentials(config, listFlags(flags)),
    ),
  )

program
  .command('eab revoke <kid>', 'Revoke a credential, the accounts registered with it and their authorizations')
  .example('-c config.yaml eab revoke team-a')
  .action(
    runWithConfig(async (config, kid: string) => (await import('./commands/eab.ts')).revokeCredential(config, kid)),
  )

program
  .command('account allow <id>', 'Allow identifiers to an account: names, *.name, addresses, networks')
  .example("-c config.yaml account allow 01938c4e-… host.example.com '*.a.example.com'")
  .action(
    runWithConfig(
      async (config, id: string, options: GlobalOptions & FurtherWords) =>
        (await import('./commands/account.ts')).allowToAccount(config, id, options._),
      'further',
    ),
  )

program
  .command('account disallow <id>', 'Take allowed identifiers away from an account')
  .example('-c config.yaml account disallow 01938c4e-… host.example.com')
  .action(
    runWithConfig(
      async (config, id: string, options: GlobalOptions & FurtherWords) =>
        (await import('./commands/account.ts')).disallowToAccount(config, id, options._),
      'further',
    ),
  )

program
  .command('account allowed <id>', 'List the identifiers allowed to an account')
  .example('-c config.yaml account allowed 01938c4e-…')
  .action(runWithConfig(async (config, id: string) => (await import('./commands/account.ts')).listAllowed(config, id)))

program
  .command('terms accept', 'Record that an account, or with --all every one, agrees to tos.version')
  .option('--account', 'Account id, the last part of the account URL')
  .option(lone('--all'), 'Every account')
  .example('-c config.yaml terms accept --account 01938c4e-…')
  .action(
    runWithConfig(async (config, options: GlobalOptions & { account?: Text; all?: boolean }) => {
      const account = textOf(options.account, '--account')
      if ((account === undefined) === (options.all !== true)) throw new UsageError('name either --account or --all')
      return (await import('./commands/terms.ts')).acceptTerms(config, account)
    }),
  )

program
  .command('csr-profile create <file>', 'Store a CSR profile: YAML or JSON with name, description and profile_data')
  .example('-c config.yaml csr-profile create servers.yaml')
  .action(
    runWithConfig(async (config, file: string) =>
      (await import('./commands/csr-profile.ts')).createProfile(config, file),
    ),
  )

program
  .command('csr-profile list', 'List the CSR profiles')
  .example('-c config.yaml csr-profile list')
  .action(runWithConfig(async (config) => (await import('./commands/csr-profile.ts')).listProfiles(config)))

program
  .command('csr-profile assign <name>', 'Give a CSR profile to an account, or to a credential and its accounts')
  .option('--account', 'Account id, the last part of the account URL')
  .option('--eab', 'Key id of a credential of external account binding')
  .example('-c config.yaml csr-profile assign servers --eab team-a')
  .action(
    runWithConfig(async (config, name: string, options: GlobalOptions & AssignmentFlags) =>
      (await import('./commands/csr-profile.ts')).assignProfile(config, name, {
        account: textOf(options.account, '--account'),
        eab: textOf(options.eab, '--eab'),
      }),
    ),
  )

/** Words behind --allow. Beside another flag with several values their flag would be ambiguous. */
function furtherIdentifiers({ _: words, profile, preapprove }: CredentialFlags & FurtherWords): string[] {
  if (words.length > 0 && (profile !== undefined || preapprove !== undefined))
    throw new UsageError(
      `${words[0]} has no flag: beside --profile and --preapprove, give --allow once for each identifier`,
    )
  return words
}
