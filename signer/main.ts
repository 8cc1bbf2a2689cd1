#!/usr/bin/env node
/** chancery-signer: the command line of the signer daemon. */

import sade from 'sade'
import { verifyAuditChain } from './audit-verify.ts'
import { describeSoftHsm, initSoftHsm } from './ceremony/init-softhsm.ts'
import { nextSteps, runCeremony } from './ceremony/keygen.ts'
import { KEYGEN_TEXTS, type KeygenOptions, readPlan } from './ceremony/options.ts'
import { ConfigError, loadConfig } from './config.ts'
import { isPinRefusal } from './issuers.ts'
import { PIN_REFUSED_EXIT_CODE } from './protocol.ts'
import { checkSetup, serve } from './serve.ts'
import { readVersion } from './version.ts'

/** `pinRefused` has a code of its own so that whoever restarts the daemon can leave that to people. */
const EXIT = { ok: 0, failed: 1, pinRefused: PIN_REFUSED_EXIT_CODE } as const
const DEFAULT_CONFIG = '/etc/chancery/signer.yaml'

interface ServeOptions {
  /** What stands on the command line beside options. */
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
  ])

program
  .command('serve', 'Run the daemon', { default: true })
  .option('-c, --config', 'Configuration file (YAML)', DEFAULT_CONFIG)
  .option('--validate-only', 'Check configuration, secret, certificates and keys (a test signature each), then exit')
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

async function keygenCommand(options: KeygenOptions): Promise<number> {
  const plan = await readPlan(options, `chancery-signer ${version}`)
  await runCeremony(plan, (line) => console.log(line))
  for (const line of nextSteps(plan)) console.log(line)
  return EXIT.ok
}

async function initSoftHsmCommand(folder: string, options: { label: string; library?: string }): Promise<number> {
  const made = await initSoftHsm(folder, options.label, options.library)
  for (const line of describeSoftHsm(made)) console.log(line)
  return EXIT.ok
}

async function serveCommand(options: ServeOptions): Promise<number> {
  if (options._.length > 0) throw new Error(`unknown command: ${options._.join(' ')}; see chancery-signer --help`)
  const config = loadConfig(options.config)
  if (!options['validate-only']) {
    await serve(config, version, options['with-parent'] ?? false)
    return EXIT.ok
  }
  for (const line of await checkSetup(config)) console.log(line)
  console.log(`${options.config}: configuration is valid`)
  return EXIT.ok
}

async function verifyCommand(file: string): Promise<number> {
  const verdict = await verifyAuditChain(file)
  if (!verdict.ok) {
    console.error(`${file}: line ${verdict.line}: ${verdict.reason}`)
    return EXIT.failed
  }
  const repairs = verdict.repairs === 0 ? '' : `, ${verdict.repairs} repaired after a crash`
  console.log(`${file}: ${verdict.lines} lines, ${verdict.signatures} signatures${repairs}`)
  console.log(`head ${verdict.head}`)
  return EXIT.ok
}

/** Turns what a command returns or throws into an exit code and plain lines on standard error. */
function run<A extends unknown[]>(command: (...args: A) => Promise<number>): (...args: A) => Promise<void> {
  return async (...args) => {
    try {
      process.exitCode = await command(...args)
    } catch (error) {
      const lines =
        error instanceof ConfigError ? error.problems : [error instanceof Error ? error.message : String(error)]
      for (const line of lines.flatMap((text) => text.split('\n'))) console.error(`chancery-signer: ${line}`)
      process.exitCode = isPinRefusal(error) ? EXIT.pinRefused : EXIT.failed
    }
  }
}

program.parse(process.argv, { unknown: (flag) => `Unknown option: ${flag}`, string: KEYGEN_TEXTS })
