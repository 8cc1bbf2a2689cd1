#!/usr/bin/env node
/**
 * Where chancery starts: the signals that Node would answer with its debugger are taken before the
 * rest is loaded, which takes most of the start, and long before any command has read a key.
 */

import { ignoreUserSignals, RELOAD_OR_STOP } from '../shared/lib/user-signals.ts'

ignoreUserSignals(RELOAD_OR_STOP, (sentence) => process.stderr.write(`chancery: ${sentence}\n`))
await import('./command-line.ts')
