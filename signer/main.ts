#!/usr/bin/env node
/**
 * The command line of the signer daemon. It takes the signals that open Node's debugger, and looks at the environment, before the
 * rest is loaded, and so before any key is read.
 */

import { requireSafeEnvironment } from '../src/shared/lib/environment.ts'
import { ignoreUserSignals, RELOAD_OR_STOP } from '../src/shared/lib/user-signals.ts'

requireSafeEnvironment('chancery-signer')
ignoreUserSignals(RELOAD_OR_STOP, (sentence) => process.stderr.write(`chancery-signer: ${sentence}\n`))
const [{ runProgram }, { SIGNER_PROGRAM }] = await Promise.all([
  import('../src/shared/command-line.ts'),
  import('./program.ts'),
])
await runProgram(SIGNER_PROGRAM, process.argv.slice(2))
