/**
 * `npm run watch -- word …`: compiles at each change, and runs the chosen test files after each compilation without errors. A
 * file that needs PostgreSQL starts one for itself each time, so this is for few files.
 *
 * Node's own `--test --watch` would begin while the compiler is still writing, and again for each file.
 */

import { type ChildProcess, spawn } from 'node:child_process'
import path from 'node:path'
import { createInterface } from 'node:readline'
import { chooseFiles } from './support/run/chosen-files.ts'

const COMPILER = path.resolve(import.meta.dirname, '../../node_modules/typescript/bin/tsc')
const MOST_FILES = 20

const patterns = process.argv.slice(2)
const files = patterns.length === 0 ? [] : chooseFiles(patterns)
if (files.length === 0 || files.length > MOST_FILES) {
  console.error(`Usage: npm run watch -- word …
The words must choose 1 to ${MOST_FILES} test files; they choose ${files.length}.`)
  process.exit(2)
}

let run: ChildProcess | undefined

function runAgain(): void {
  run?.kill()
  const args = ['--test', '--test-reporter=spec', '--enable-source-maps', ...files]
  run = spawn(process.execPath, args, { stdio: 'inherit' })
}

const compiler = spawn(process.execPath, [COMPILER, '-p', 'tsconfig.json', '--watch', '--preserveWatchOutput'], {
  stdio: ['ignore', 'pipe', 'inherit'],
})
createInterface({ input: compiler.stdout }).on('line', (line) => {
  console.log(line)
  if (line.includes('Found 0 errors')) runAgain()
})
compiler.on('exit', () => run?.kill())
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.on(signal, () => compiler.kill())
