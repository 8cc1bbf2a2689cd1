/**
 * `npm run watch -- word …`: compiles at each change, and runs the chosen test files again when something that they import has
 * changed. A file that needs PostgreSQL starts one for itself each time, so this is for few files.
 */

import { spawn } from 'node:child_process'
import path from 'node:path'
import { chooseFiles } from './support/chosen-files.ts'

const COMPILER = path.resolve(import.meta.dirname, '../../node_modules/typescript/bin/tsc')
const MOST_FILES = 20

const patterns = process.argv.slice(2)
const files = patterns.length === 0 ? [] : chooseFiles(patterns)
if (files.length === 0 || files.length > MOST_FILES) {
  console.error(
    `Usage: npm run watch -- word …\nThe words must choose 1 to ${MOST_FILES} test files; they choose ${files.length}.`,
  )
  process.exit(2)
}

const both = [
  [COMPILER, '-p', 'tsconfig.json', '--watch', '--preserveWatchOutput'],
  ['--test', '--watch', '--enable-source-maps', ...files],
].map((args) => spawn(process.execPath, args, { stdio: 'inherit' }))

function end(): void {
  for (const child of both) child.kill()
}
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.on(signal, end)
for (const child of both) child.on('exit', end)
