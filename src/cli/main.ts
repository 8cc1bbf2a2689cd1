#!/usr/bin/env node
/**
 * Takes the signals that open Node's debugger, and looks at the environment, before the rest is loaded.
 * Loading takes most of the start, and no key has been read by then.
 */

import { ignoreUserSignals, RELOAD_OR_STOP, requireSafeEnvironment } from '../shared/lib/environment.ts'
import { printable } from '../shared/lib/terminal.ts'

requireSafeEnvironment('chancery')
ignoreUserSignals(RELOAD_OR_STOP, (sentence) => process.stderr.write(`chancery: ${sentence}\n`))
// Whatever a command prints, texts of clients and servers in it must not steer the terminal.
for (const name of ['log', 'error'] as const) {
  const print = console[name]
  console[name] = (text = '') => print(printable(String(text)))
}
const typed = process.argv.slice(2)
const isRemote = typed.some((word) => /^--server(?:=|$)/.test(word))
const [{ runProgram }, program] = await Promise.all([
  import('../shared/command-line.ts'),
  isRemote
    ? import('./remote/remote-program.ts').then(({ remoteProgram }) => remoteProgram(typed))
    : import('./program.ts').then(({ localProgram }) => localProgram(typed)),
])
await runProgram(program, typed)
