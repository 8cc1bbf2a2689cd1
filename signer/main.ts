#!/usr/bin/env node
/** The command line of the signer daemon. */

import { runProgram } from '../src/shared/command-line.ts'
import { SIGNER_PROGRAM } from './program.ts'

await runProgram(SIGNER_PROGRAM, process.argv.slice(2))
