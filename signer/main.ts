#!/usr/bin/env node
/**
 * chancery-signer: the command line of the signer daemon.
 *
 * Only `serve` loads the daemon's modules, which takes three times as long as all else.
 */

import sade from 'sade'
import { joinNegativeValues } from '../src/shared/lib/negative-values.ts'
import { exportCommand, tailCommand, verifyCommand } from './audit/commands.ts'
import { describeSoftHsm, initSoftHsm } from './ceremony/init-softhsm.ts'
import { nextSteps, runCeremony } from './ceremony/keygen.ts'
import {
  CEREMONY_TEXTS,
  type KeygenOptions,
  readPlan,
  readSigningPlan,
  type SignRequestOptions,
} from './ceremony/options.ts'
import { readVersion } from './version.ts'

const EXIT = { ok: 0, failed: 1 } as const
const DEFAULT_CONFIG = '/etc/chancery/signer.yaml'

interface ServeOptions {
  /** Arguments that are no options. */
  _: readonly string[]
  config: string
  'validate-only'?: boolean
  'with-parent'?: boolean
}

const version = readVersion()
const program = sade('chancery-signer')
  .version(version)
  .describe([
    'Holds the CA keys and signs what its policy allows, over a Unix socket.',
    '',
    'Exit codes: 0 done; 1 wrong usage, could not start, or found something wrong; 3 a token refused the PIN: do not',
    'start again before it is corrected, each attempt brings the token nearer to its lock.',
    'A running daemon prints one line "signer ready" (JSON) when it accepts connections.',
    'SIGTERM or SIGINT: finish what is in flight, then stop.',
    'SIGHUP: read the issuers of the configuration again; what is wrong with them is logged and changes nothing.',
  ])

program
  .command('serve', 'Run the daemon', { default: true })
  .option('-c, --config', 'Configuration file (YAML)', DEFAULT_CONFIG)
  .option(
    '--validate-only',
    'Check configuration, secret, certificates, keys (a test signature each) and folders, then exit',
  )
  .option('--with-parent', 'Stop too when standard input ends, so that a parent cannot leave the daemon behind')
  .example('serve -c /etc/chancery/signer.yaml')
  .example('--validate-only -c signer.yaml')
  .action(run(serveCommand))

program
  .command('audit verify <file>', 'Check an audit chain from its first line to its last')
  .describe([
    'Check an audit chain from its first line to its last.',
    '',
    'Prints the number of signatures and the hash of the last line. Keep that hash elsewhere: a later chain that',
    'does not contain it has been cut.',
  ])
  .example('audit verify /var/lib/chancery-signer/audit.jsonl')
  .action(run(verifyCommand))

program
  .command('audit tail <file>', 'Show the newest signatures')
  .option('-n, --lines', 'How many', 20)
  .option('-f, --follow', 'Go on showing what is added, until Ctrl-C')
  .option('--json', 'The lines as they stand in the file')
  .example('audit tail -n 5 --follow /var/lib/chancery-signer/audit.jsonl')
  .action(run(tailCommand))

program
  .command('audit export <file>', 'Write the lines of a chain to standard output, older segments included')
  .option('--format', 'jsonl (the lines as they stand) or csv', 'jsonl')
  .option('--since', 'Only lines from this time on, RFC 3339')
  .option('--until', 'Only lines up to this time, RFC 3339')
  .option('--issuer', 'Only lines of this issuer id')
  .option('--serial', 'Only lines with this serial number, hex')
  .example('audit export --format csv --since 2026-01-01T00:00:00Z /var/lib/chancery-signer/audit.jsonl > 2026.csv')
  .action(run(exportCommand))

program
  .command('keygen', 'Make a CA key and a self-signed root or a certificate request')
  .describe([
    'Make a CA key, and with it a self-signed root (--root-days) or a request that another CA signs.',
    '',
    'With --library the key is made inside a PKCS#11 token and never leaves it; otherwise it becomes key.pem in --out.',
    'The folder --out gets root.pem or request.csr, and ceremony.log: each step with its time, the key, the fingerprints',
    'and the hashes of the files. PIN and passphrase come from a file (mode 600), a variable or the terminal.',
  ])
  .option('--subject', 'Name of the CA, last part first: "CN=Example Root CA,O=Example,C=DE"')
  .option('--type', 'P-256, P-384, P-521, RSA-2048, RSA-3072, RSA-4096, RSA-8192 or Ed25519 (in a file)', 'P-256')
  .option('--hash', 'sha256, sha384 or sha512', 'sha256')
  .option('--out', 'Folder for what is written', 'ceremony')
  .option('--root-days', 'Make a self-signed root, valid for so many days')
  .option('--path-length', 'CA certificates that may stand below this one')
  .option('--library', 'PKCS#11 library; the key is made in a token')
  .option('--token', 'Label of the token')
  .option('--slot', 'Slot of the token')
  .option('--label', 'Label of the new key in the token')
  .option('--id', 'Id of the new key in the token, hexadecimal; without it a random one')
  .option('--pin-file', 'File with the PIN; without it and --pin-env it is asked for')
  .option('--pin-env', 'Variable with the PIN')
  .option('--passphrase-file', 'Encrypt the key file with the passphrase in this file')
  .option('--passphrase-env', 'Encrypt the key file with the passphrase in this variable')
  .option('--passphrase-prompt', 'Encrypt the key file with a passphrase asked for on the terminal')
  .example('keygen --subject "CN=Example Root CA" --type P-384 --root-days 7300 --out root --passphrase-prompt')
  .example('keygen --subject "CN=Example Issuing CA" --library libsofthsm2.so --token ca --label issuing --out issuing')
  .action(run(keygenCommand))

program
  .command('sign-request <request>', 'Sign the request of a CA with the key of a root')
  .describe([
    'Sign the request of a CA with the key of a root: the other half of keygen, where the root is.',
    '',
    'Name and key are taken from the request; basic constraints, key usages, key identifiers, path length and validity are',
    'what an issuer of chancery-signer needs. The key is a file (--key) or in a token (--library).',
    'ceremony.log beside the certificate gets what was signed, with its fingerprints.',
  ])
  .option('--root', 'Certificate of the root, PEM')
  .option('--days', 'How long the certificate is valid')
  .option('--path-length', 'CA certificates that may stand below it', '0')
  .option('--hash', 'sha256, sha384 or sha512', 'sha256')
  .option('--out', 'File for the certificate', 'issuer.pem')
  .option('--key', 'File with the key of the root')
  .option('--passphrase-file', 'File with its passphrase')
  .option('--passphrase-env', 'Variable with its passphrase')
  .option('--passphrase-prompt', 'Ask for its passphrase on the terminal')
  .option('--library', 'PKCS#11 library; the key is in a token')
  .option('--token', 'Label of the token')
  .option('--slot', 'Slot of the token')
  .option('--label', 'Label of the key in the token')
  .option('--id', 'Id of the key in the token, hexadecimal')
  .option('--pin-file', 'File with the PIN; without it and --pin-env it is asked for')
  .option('--pin-env', 'Variable with the PIN')
  .example('sign-request issuing/request.csr --root root/root.pem --key root/key.pem --passphrase-prompt --days 1825')
  .example('sign-request request.csr --root root.pem --library libsofthsm2.so --token root --label root --days 1825')
  .action(run(signRequestCommand))

program
  .command('init-softhsm <folder>', 'Make a SoftHSM token for development')
  .describe([
    'Make a SoftHSM token for development, in a folder of its own with its own configuration and random PINs.',
    '',
    'Prints what to put into the configuration. SoftHSM keeps keys in files: this is for trying things out, not for a CA.',
  ])
  .option('--label', 'Label of the token', 'chancery-dev')
  .option('--library', 'SoftHSM library, where it is not in one of the usual places')
  .example('init-softhsm ./softhsm')
  .action(run(initSoftHsmCommand))

async function keygenCommand(options: KeygenOptions): Promise<boolean> {
  const plan = await readPlan(options, `chancery-signer ${version}`)
  await runCeremony(plan, (line) => console.log(line))
  for (const line of nextSteps(plan)) console.log(line)
  return true
}

async function signRequestCommand(request: string, options: SignRequestOptions): Promise<boolean> {
  const plan = readSigningPlan(request, options, `chancery-signer ${version}`)
  const { signRequest } = await import('./ceremony/sign-request.ts')
  await signRequest(plan, (line) => console.log(line))
  return true
}

async function initSoftHsmCommand(folder: string, options: { label: string; library?: string }): Promise<boolean> {
  const made = await initSoftHsm(folder, options.label, options.library)
  for (const line of describeSoftHsm(made)) console.log(line)
  return true
}

async function serveCommand(options: ServeOptions): Promise<boolean> {
  if (options._.length > 0) throw new Error(`unknown command: ${options._.join(' ')}; see chancery-signer --help`)
  const [{ loadConfig }, { checkSetup, serve }] = await Promise.all([import('./config.ts'), import('./serve.ts')])
  const config = loadConfig(options.config)
  if (!options['validate-only']) {
    const withParent = options['with-parent'] ?? false
    await serve({ config, reread: () => loadConfig(options.config), version, withParent })
    return true
  }
  for (const line of await checkSetup(config)) console.log(line)
  console.log(`${options.config}: configuration is valid`)
  return true
}

/**
 * Turns a command's result (success or not) or error into an exit code and lines on standard error.
 */
function run<A extends unknown[]>(command: (...args: A) => Promise<boolean>): (...args: A) => Promise<void> {
  return async (...args) => {
    try {
      process.exitCode = (await command(...args)) ? EXIT.ok : EXIT.failed
    } catch (error) {
      const message = error instanceof Error ? error.message : String(error)
      for (const line of message.split('\n')) console.error(`chancery-signer: ${line}`)
      process.exitCode = await exitCodeOf(error)
    }
  }
}

/** A refused PIN has its own code, so that a supervisor does not restart the daemon. */
async function exitCodeOf(error: unknown): Promise<number> {
  const [{ isPinRefusal }, { PIN_REFUSED_EXIT_CODE }] = await Promise.all([
    import('./issuers.ts'),
    import('./protocol.ts'),
  ])
  return isPinRefusal(error) ? PIN_REFUSED_EXIT_CODE : EXIT.failed
}

program.parse(joinNegativeValues(process.argv), {
  boolean: ['follow', 'json'],
  string: [...CEREMONY_TEXTS, 'serial'],
  unknown: (flag) => `Unknown option: ${flag}`,
})
