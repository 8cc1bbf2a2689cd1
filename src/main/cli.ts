#!/usr/bin/env node
/** chancery: the command line of the service. */

import path from 'node:path'
import sade, { type Sade } from 'sade'
import type { Config } from '../config/schema.ts'
import { requireUws } from '../http/uws-check.ts'
import { joinNegativeValues } from '../lib/negative-values.ts'
import { ignoreUserSignals, RELOAD_OR_STOP } from '../lib/user-signals.ts'
import { typeOf } from '../protocol/challenge.ts'
import { allowToAccount, disallowToAccount, listAllowed } from './commands/account.ts'
import { testSign } from './commands/ca.ts'
import { importCertificates } from './commands/certificate.ts'
import { loadConfigFile, readConfigFile, readConfigSections, requireFiles, UsageError } from './commands/config-file.ts'
import { rebuildCrls } from './commands/crl.ts'
import { assignProfile, createProfile, listProfiles } from './commands/csr-profile.ts'
import { databaseMigrate, databaseStatus } from './commands/db.ts'
import { createCredential, listCredentials, revokeCredential } from './commands/eab.ts'
import { groupComplaint, incompleteCommand, renderGroupHelp, wordsOf } from './commands/groups.ts'
import { inspectAccount, inspectCertificate, inspectOrder } from './commands/inspect.ts'
import { inspectAccounts, inspectCertificates, inspectOrders, type ListFlags } from './commands/inspect-lists.ts'
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
import { searchIndexes } from './commands/search-indexes.ts'
import { runService } from './commands/serve.ts'
import { throwSwitch } from './commands/switches.ts'
import { acceptTerms } from './commands/terms.ts'
import { inspectPerspectiveFiles, inspectServiceFiles, inspectSignerFiles } from './configured-files.ts'
import { runEmbedded } from './dev.ts'
import { loadChallengeMethods } from './extensions.ts'
import { PERSPECTIVE_SECTIONS } from './perspective-service.ts'
import { VERSION } from './version.ts'

interface GlobalOptions {
  /** What stands on the command line beside command and options. */
  _: readonly string[]
  /** True when the file name is missing, a list when it was given twice. */
  config?: string | boolean | string[]
  debug?: boolean
  'validate-only'?: boolean
  dev?: boolean
}

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

type Scope = 'service' | 'perspective'

const EXIT_FAILED = 1
const EXIT_USAGE = 2

// Before any command has read a key.
ignoreUserSignals(RELOAD_OR_STOP, (sentence) => process.stderr.write(`chancery: ${sentence}\n`))

const program = sade('chancery')
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
  .action(run(async (options: GlobalOptions) => databaseStatus(await readConfigFile(configOf(options)))))

program
  .command('db migrate', 'Bring the database to the schema of this release')
  .example('-c config.yaml db migrate')
  .action(run(async (options: GlobalOptions) => databaseMigrate(await readConfigFile(configOf(options)))))

program
  .command('db search-indexes', 'Make the indexes that `inspect` by name, issuer and contact is quick with')
  .option('--drop', 'Drop them')
  .example('-c config.yaml db search-indexes')
  .action(
    run(async (options: GlobalOptions & { drop?: boolean }) =>
      searchIndexes(await readConfigFile(configOf(options)), { drop: options.drop === true }),
    ),
  )

program
  .command('ca test-sign', 'Make one test signature with every issuer and verify it')
  .example('-c config.yaml ca test-sign')
  .action(
    run(async (options: GlobalOptions) => {
      const config = await readConfigFile(configOf(options))
      requireFiles(configOf(options), inspectSignerFiles(config))
      return testSign(config)
    }),
  )

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
  .action(
    run(async (options: GlobalOptions & AdviceFlags) =>
      adviseRenewal(await readConfigFile(configOf(options)), options),
    ),
  )

withSelection(program.command('renewal clear', 'Take such advice back'))
  .example('-c config.yaml renewal clear --all')
  .action(
    run(async (options: GlobalOptions & SelectionFlags) =>
      clearAdvice(await readConfigFile(configOf(options)), options),
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
    run(
      async (file: string, options: GlobalOptions & FurtherWords & { account?: Text }) =>
        importCertificates(
          await readConfigFile(configOf(options)),
          [file, ...options._],
          textOf(options.account, '--account'),
        ),
      'further',
    ),
  )

program
  .command('crl rebuild', 'Have a new CRL built and wait until it is published (needs crl.enabled)')
  .example('-c config.yaml crl rebuild')
  .action(run(async (options: GlobalOptions) => rebuildCrls(await readConfigFile(configOf(options)))))

const MAINTENANCE_HELP = {
  on: 'Refuse new orders and pre-authorizations on all instances; what was begun goes on',
  off: 'Take new orders again',
  status: 'Say whether the service is in maintenance',
}
for (const action of ['on', 'off', 'status'] as const)
  program
    .command(`maintenance ${action}`, MAINTENANCE_HELP[action])
    .example(`-c config.yaml maintenance ${action}`)
    .action(
      run(async (options: GlobalOptions) =>
        throwSwitch(
          await readConfigFile(configOf(options)),
          'maintenance',
          action === 'status' ? undefined : action === 'on',
        ),
      ),
    )

const SIGNING_HELP = {
  stop: 'Stop all signing on all instances within two seconds: certificates and CRLs',
  resume: 'Sign again; what was begun is finished',
  status: 'Say whether signing is stopped',
}
for (const action of ['stop', 'resume', 'status'] as const)
  program
    .command(`signing ${action}`, SIGNING_HELP[action])
    .example(`-c config.yaml signing ${action}`)
    .action(
      run(async (options: GlobalOptions) =>
        throwSwitch(
          await readConfigFile(configOf(options)),
          'stopSigning',
          action === 'status' ? undefined : action === 'stop',
        ),
      ),
    )

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
    .action((key: string, options: GlobalOptions & { json?: boolean }) =>
      run(async () => inspect(await readConfigFile(configOf(options)), key, { json: options.json === true }))(options),
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
    .option('--json', 'Print JSON')
    .example(`-c config.yaml inspect ${name} ${example}`)
    .action(
      run(async (flags: GlobalOptions & ListFlags) => inspect(await readConfigFile(configOf(flags)), listFlags(flags))),
    )
}

/** What the parser makes of a flag with a value: a list where it is given several times. */
type Text = string | string[]

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
    run(
      async (options: GlobalOptions & CredentialFlags & FurtherWords) =>
        createCredential(await readConfigFile(configOf(options)), {
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
  .action(run(async (options: GlobalOptions) => listCredentials(await readConfigFile(configOf(options)))))

program
  .command('eab revoke <kid>', 'Revoke a credential, the accounts registered with it and their authorizations')
  .example('-c config.yaml eab revoke team-a')
  .action(
    run(async (kid: string, options: GlobalOptions) => revokeCredential(await readConfigFile(configOf(options)), kid)),
  )

program
  .command('account allow <id>', 'Allow identifiers to an account: names, *.name, addresses, networks')
  .example("-c config.yaml account allow 01938c4e-… host.example.com '*.a.example.com'")
  .action(
    run(
      async (id: string, options: GlobalOptions & FurtherWords) =>
        allowToAccount(await readConfigFile(configOf(options)), id, options._),
      'further',
    ),
  )

program
  .command('account disallow <id>', 'Take allowed identifiers away from an account')
  .example('-c config.yaml account disallow 01938c4e-… host.example.com')
  .action(
    run(
      async (id: string, options: GlobalOptions & FurtherWords) =>
        disallowToAccount(await readConfigFile(configOf(options)), id, options._),
      'further',
    ),
  )

program
  .command('account allowed <id>', 'List the identifiers allowed to an account')
  .example('-c config.yaml account allowed 01938c4e-…')
  .action(run(async (id: string, options: GlobalOptions) => listAllowed(await readConfigFile(configOf(options)), id)))

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
  .action(
    run(async (file: string, options: GlobalOptions) => createProfile(await readConfigFile(configOf(options)), file)),
  )

program
  .command('csr-profile list', 'List the CSR profiles')
  .example('-c config.yaml csr-profile list')
  .action(run(async (options: GlobalOptions) => listProfiles(await readConfigFile(configOf(options)))))

program
  .command('csr-profile assign <name>', 'Give a CSR profile to an account, or to a credential and its accounts')
  .option('--account', 'Account id, the last part of the account URL')
  .option('--eab', 'Key id of a credential of external account binding')
  .example('-c config.yaml csr-profile assign servers --eab team-a')
  .action(
    run(async (name: string, options: GlobalOptions & AssignmentFlags) =>
      assignProfile(await readConfigFile(configOf(options)), name, {
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

/** With the files it names, and every warning said. */
async function serviceConfig(options: GlobalOptions): Promise<Config> {
  const config = await readConfigFile(configOf(options), 'said', options.dev)
  requireFiles(configOf(options), inspectServiceFiles(config))
  return config
}

async function perspectiveConfig(options: GlobalOptions): Promise<Config> {
  const config = await readConfigSections(configOf(options), PERSPECTIVE_SECTIONS)
  requireFiles(configOf(options), inspectPerspectiveFiles(config))
  return config
}

/** What the command line says about the log stands above what the file says. */
function withFlags(config: Config, { debug, dev }: GlobalOptions): Config {
  const level = debug ? ('DEBUG' as const) : config.logging.level
  const format = dev ? ('human' as const) : config.logging.format
  return { ...config, logging: { ...config.logging, level, format } }
}

async function validateOnly(options: GlobalOptions, scope: Scope): Promise<number> {
  if (scope === 'perspective') {
    await perspectiveConfig(options)
    console.log(`the configuration is valid as far as ${PERSPECTIVE_SECTIONS.join(', ')} go`)
    return 0
  }
  const config = await serviceConfig(options)
  const { server, ca, database } = config
  const { enabled } = await loadChallengeMethods(config)
  console.log(`chancery ${VERSION}`)
  console.log(
    `listens on ${server.bind}:${server.port} (${server.tls.cert_path === null ? 'HTTP' : 'HTTPS'}) as ${server.external_url}`,
  )
  console.log(`CA backend ${ca.backend}, signer ${ca.signer.socket ?? 'started by the service'}`)
  console.log(`challenges ${enabled.map(typeOf).join(', ')}`)
  console.log(`database ${database.database} at ${database.host}:${database.port}`)
  console.log('the configuration is valid')
  return 0
}

function portOf(value: number | undefined, flag: string): number {
  if (value === undefined || !Number.isInteger(value) || value < 1 || value > 65535)
    throw new UsageError(`${flag} takes a port number`)
  return value
}

function valuesOf(value: Text | undefined): string[] {
  return value === undefined ? [] : [value].flat()
}

/** Words behind --allow. Where another flag takes several values, too, it is not said whose they are. */
function furtherIdentifiers({ _: words, profile, preapprove }: CredentialFlags & FurtherWords): string[] {
  if (words.length > 0 && (profile !== undefined || preapprove !== undefined))
    throw new UsageError(
      `${words[0]} has no flag: beside --profile and --preapprove, give --allow once for each identifier`,
    )
  return words
}

function textOf(value: Text | undefined, flag: string): string | undefined {
  const values = valuesOf(value)
  if (values.length > 1) throw new UsageError(`${flag} is given once`)
  return values[0]
}

/** Each once, as typed. */
function listFlags(flags: GlobalOptions & ListFlags): ListFlags {
  for (const flag of LIST_TEXTS) textOf(flags[flag] as Text | undefined, `--${flag}`)
  return flags
}

function configOf({ config }: GlobalOptions): string | undefined {
  if (config === undefined || typeof config === 'string') return config
  throw new UsageError('-c takes one file name')
}

/**
 * Turns what a command returns or throws into an exit code and plain lines on standard error.
 * @param words `further`: the command reads what stands behind the arguments it names.
 * @param scope what of the configuration the command reads
 */
function run<A extends [...string[], GlobalOptions]>(
  command: (...args: A) => Promise<number>,
  words: 'named' | 'further' = 'named',
  scope: Scope = 'service',
): (...args: A) => Promise<void> {
  return async (...args) => {
    const options = args.at(-1) as GlobalOptions
    try {
      if (words === 'named' && options._.length > 0) throw new UsageError(`one word too many: ${options._[0]}`)
      // Whatever the command: who asks for a check only does not expect a migration.
      process.exitCode = options['validate-only'] ? await validateOnly(options, scope) : await command(...args)
    } catch (error) {
      if (error instanceof UsageError) {
        complain(error.message)
        return
      }
      const message = error instanceof Error ? error.message : String(error)
      process.stderr.write(`chancery: ${options.debug && error instanceof Error ? error.stack : message}\n`)
      process.exitCode = EXIT_FAILED
    }
  }
}

function complain(message: string, command = 'chancery'): void {
  process.stderr.write(`chancery: ${message}; see ${command} --help\n`)
  process.exitCode = EXIT_USAGE
}

/**
 * Flags may stand before the command (`chancery -c FILE --debug db status`), where the parser would take the word
 * behind a flag without a value for that value. Such flags are moved to the end.
 */
function flagsLast(argv: readonly string[]): string[] {
  const lone = new Set([
    '--debug',
    '--validate-only',
    '--dev',
    '--crl',
    '--json',
    '--all',
    '--drop',
    '-v',
    '--version',
    '-h',
    '--help',
  ])
  return [...argv.filter((word) => !lone.has(word)), ...argv.filter((word) => lone.has(word))]
}

/** Flags of lists that have a text for a value. */
const LIST_TEXTS = [...Object.values(LISTS).flatMap(({ options }) => options.map(([flag]) => flag)), 'after'] as const

const [node, script, ...typed] = process.argv
const words = joinNegativeValues(flagsLast(typed))
const parsing = {
  unknown(flag: string) {
    complain(`unknown option: ${flag}`)
    process.exit()
  },
  lazy: true as const,
  // Values that stay as typed, where the parser would make a number of 007.
  string: ['validator', 'kid', 'label', 'allow', 'csr-profile', 'profile', 'preapprove', ...LIST_TEXTS],
}
const { tree } = program as unknown as { tree: Record<string, { describe?: readonly string[] }> }
const incomplete = incompleteCommand(Object.keys(tree), wordsOf(words))

async function parseAndRun(): Promise<void> {
  // An argument that is missing makes the parser say so and end the process with 1.
  const wrongUsage = () => {
    process.exitCode = EXIT_USAGE
  }
  process.once('exit', wrongUsage)
  const parsed = program.parse([node ?? '', script ?? '', ...words], parsing)
  process.off('exit', wrongUsage)
  if (parsed) await parsed.handler.apply(null, parsed.args)
  else if (process.exitCode === undefined)
    process.exitCode = words.some((word) => /^(?:-h|--help|-v|--version)$/.test(word)) ? 0 : EXIT_USAGE
}

if (!incomplete || words.some((word) => /^(?:-v|--version)$/.test(word))) await parseAndRun()
else if (words.some((word) => /^(?:-h|--help)$/.test(word)))
  console.log(renderGroupHelp(incomplete, (command) => tree[command]?.describe?.[0] ?? ''))
else complain(groupComplaint(incomplete), `chancery ${incomplete.group}`)
