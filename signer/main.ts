#!/usr/bin/env node
/** chancery-signer: the command line of the signer daemon. */

import sade from 'sade'
import { verifyAuditChain } from './audit-verify.ts'
import { ConfigError, loadConfig } from './config.ts'
import { PinRefused } from './issuers.ts'
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
      process.exitCode = error instanceof PinRefused ? EXIT.pinRefused : EXIT.failed
    }
  }
}

program.parse(process.argv, { unknown: (flag) => `Unknown option: ${flag}` })
