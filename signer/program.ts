/**
 * The commands of `chancery-signer`.
 *
 * Each command loads its modules when it runs. The daemon's modules take three times as long to load as all others.
 */

import { type Command, command, isGiven, option, optional, type Program } from '../src/shared/command-line.ts'
import { VERSION } from '../src/shared/lib/program-files.ts'
import { ceremonyCommands } from './ceremony/ceremony-commands.ts'

const text = (value: string) => value
const exitCodeOf = (isGood: boolean) => (isGood ? 0 : 1)

const SERVE = command({
  usage: 'serve',
  about: 'Run the daemon',
  isDefault: true,
  options: {
    config: { ...option('Configuration file (YAML)', text, '/etc/chancery/signer.yaml'), letter: 'c' },
    'validate-only': isGiven(
      'Check configuration, secret, certificates, keys (a test signature each) and folders, then exit',
    ),
    'with-parent': isGiven('Stop too when standard input ends, so that a parent cannot leave the daemon behind'),
  },
  examples: ['serve -c /etc/chancery/signer.yaml', '--validate-only -c signer.yaml'],
  async run({ config: file, 'validate-only': isCheck, 'with-parent': withParent }) {
    const [{ loadConfig }, { checkSetup, runDaemon }] = await Promise.all([
      import('./config.ts'),
      import('./daemon.ts'),
    ])
    const config = loadConfig(file)
    if (!isCheck) {
      await runDaemon({ config, reread: () => loadConfig(file), version: VERSION, withParent })
      return 0
    }
    for (const line of await checkSetup(config)) console.log(line)
    console.log(`${file}: configuration is valid`)
    return 0
  },
})

const auditCommands = () => import('./audit/audit-commands.ts')

const AUDIT: Command[] = [
  command({
    usage: 'audit verify <file>',
    about: [
      'Check an audit chain from its first line to its last.',
      '',
      'Prints the number of signatures and the hash of the last line. Keep that hash elsewhere: a later chain that',
      'does not contain it has been cut. Records of certificates and revocations that are there are compared, too.',
    ],
    examples: ['audit verify /var/lib/chancery-signer/audit.jsonl'],
    run: async (_, [file = '']) => exitCodeOf(await (await auditCommands()).verifyCommand(file)),
  }),
  command({
    usage: 'audit tail <file>',
    about: 'Show the newest signatures',
    options: {
      lines: { ...option('How many', Number, 20), letter: 'n' },
      follow: { ...isGiven('Go on showing what is added, until Ctrl-C'), letter: 'f' },
      json: isGiven('The lines as they stand in the file'),
    },
    examples: ['audit tail -n 5 --follow /var/lib/chancery-signer/audit.jsonl'],
    run: async (options, [file = '']) => exitCodeOf(await (await auditCommands()).tailCommand(file, options)),
  }),
  command({
    usage: 'audit export <file>',
    about: 'Write the lines of a chain to standard output, older segments included',
    options: {
      format: option('jsonl (the lines as they stand), csv, or pem (the certificates themselves)', text, 'jsonl'),
      since: optional('Only lines from this time on, RFC 3339', text),
      until: optional('Only lines up to this time, RFC 3339', text),
      issuer: optional('Only lines of this issuer id', text),
      serial: optional('Only lines with this serial number, hex', text),
    },
    examples: [
      'audit export --format pem --serial 40a1… /var/lib/chancery-signer/audit.jsonl',
      'audit export --format csv --since 2026-01-01T00:00:00Z /var/lib/chancery-signer/audit.jsonl > 2026.csv',
    ],
    run: async (options, [file = '']) => exitCodeOf(await (await auditCommands()).exportCommand(file, options)),
  }),
]

export const SIGNER_PROGRAM: Program = {
  name: 'chancery-signer',
  version: VERSION,
  about: [
    'Holds the CA keys and signs what its policy allows, over a Unix socket.',
    '',
    'Exit codes: 0 done; 1 could not start, or found something wrong; 2 wrong usage; 3 a token refused the PIN: do not',
    'start again before it is corrected, each attempt brings the token nearer to its lock.',
    'A running daemon prints one line "signer ready" (JSON) when it accepts connections.',
    'SIGTERM or SIGINT: finish what is in flight, then stop.',
    'SIGHUP: read the issuers of the configuration again; what is wrong with them is logged and changes nothing.',
  ],
  commands: [SERVE, ...AUDIT, ...ceremonyCommands(VERSION)],
}
