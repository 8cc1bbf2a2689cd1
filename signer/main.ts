#!/usr/bin/env node
/**
 * The command line of the signer daemon. It takes the signals that open Node's debugger, and looks at the environment, before the
 * rest is loaded, and so before any key is read.
 */

import { ignoreUserSignals, RELOAD_OR_STOP, requireSafeEnvironment } from '../src/shared/lib/environment.ts'

requireSafeEnvironment('chancery-signer')
ignoreUserSignals(RELOAD_OR_STOP, (sentence) => process.stderr.write(`chancery-signer: ${sentence}\n`))
const [{ runProgram }, { SIGNER_PROGRAM }] = await Promise.all([
  import('../src/shared/command-line.ts'),
  import('./program.ts'),
])
await runProgram(SIGNER_PROGRAM, process.argv.slice(2))
