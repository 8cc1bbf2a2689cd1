#!/usr/bin/env node
/**
 * Takes the signals that open Node's debugger before the rest is loaded.
 * Loading takes most of the start, and no key has been read by then.
 */

import { ignoreUserSignals, RELOAD_OR_STOP } from '../shared/lib/user-signals.ts'

ignoreUserSignals(RELOAD_OR_STOP, (sentence) => process.stderr.write(`chancery: ${sentence}\n`))
await import('./command-line.ts')
