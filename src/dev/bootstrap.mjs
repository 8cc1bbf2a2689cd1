/**
 * From a fresh clone to a running program: checks Node, installs, builds, and starts what was built.
 *
 * `npm start` installs and builds what it runs; tests and tools also need the development packages and the compiler.
 *
 * The npm scripts call `node src/dev/bootstrap.mjs start|test|watch|bench|faults|package|coverage [arguments]`. Nothing
 * is installed or compiled yet, so this is plain JavaScript with Node's own modules. A step with no
 * work prints nothing.
 */

import { spawn, spawnSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import {
  existsSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  realpathSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { constants } from 'node:os'
import path from 'node:path'
import { fileURLToPath } from 'node:url'

const ROOT = path.resolve(path.dirname(fileURLToPath(import.meta.url)), '../..')
const MODULES = path.join(ROOT, 'node_modules')
const SOURCE_FOLDERS = ['src', 'signer', 'workers', 'bench', 'deploy', 'test']
/** The bundles of `dist` are made from these folders; the build programs are in `src/dev`. */
const BUNDLED_FOLDERS = ['src', 'signer', 'workers']
const BUNDLER = path.join('src', 'dev', 'build.mjs')
const CONSOLE_PAGE = path.join(ROOT, 'dist', 'console', 'index.html')
const CONSOLE = path.join('src', 'console')
const MINIMUM_NODE = [20, 19, 0]

/** For the main thread of the service (docs/decisions/mechanisms.md). */
const { nodeFlags } = JSON.parse(readFileSync(path.join(ROOT, 'package.json'), 'utf8')).config

/** The arguments for Node, relative to the root, that each npm script runs after the build. */
const PROGRAMS = {
  start: (args) => [nodeFlags, 'dist/src/cli/main.js', '--dev', '--console', ...args],
  test: (args) => ['compiled/test/run.js', ...args],
  watch: (args) => ['compiled/test/watch.js', ...args],
  bench: (args) => ['compiled/bench/main.js', ...args],
  faults: (args) => ['compiled/bench/faults/main.js', ...args],
  package: (args) => ['build/packager/deploy/build/main.js', ...args],
  coverage: (args) => [
    'node_modules/c8/bin/c8.js',
    ...COVERAGE_OPTIONS,
    process.execPath,
    'compiled/test/run.js',
    ...args,
  ],
}

// Processes killed by fault tests write no coverage, so the figures are slightly low.
const COVERAGE_OPTIONS = [
  '--reporter=text',
  '--reporter=html',
  '--reporter=lcovonly',
  '--reports-dir=coverage',
  '--include=src/**',
  '--include=signer/**',
  '--include=workers/**',
  '--include=bench/**',
  '--exclude-after-remap',
]

/** Stops with one sentence: before the hand-over, users should never see a stack trace. */
function fail(message) {
  process.stderr.write(`chancery: ${message}\n`)
  process.exit(1)
}

/** Runs one step and prints its title and duration. */
async function step(title, run) {
  const startedAt = Date.now()
  process.stderr.write(`${title} … `)
  const failure = await run()
  const seconds = ((Date.now() - startedAt) / 1000).toFixed(1)
  process.stderr.write(failure === undefined ? `${seconds} s\n` : `failed after ${seconds} s\n\n${failure}\n\n`)
  if (failure !== undefined) fail(`${title.toLowerCase()} failed; the output above says why`)
}

/** Runs a program to its end. Resolves to its output when it failed, else to undefined. */
function outputOfFailure(file, args) {
  return new Promise((resolve) => {
    const child = spawn(file, args, { cwd: ROOT, stdio: ['ignore', 'pipe', 'pipe'] })
    const output = []
    child.stdout.on('data', (chunk) => output.push(chunk))
    child.stderr.on('data', (chunk) => output.push(chunk))
    child.on('error', (error) => resolve(`${file}: ${error.message}`))
    child.on('close', (code) => resolve(code === 0 ? undefined : Buffer.concat(output).toString().trim()))
  })
}

function checkNode() {
  const have = process.versions.node.split('.').map(Number)
  const difference = MINIMUM_NODE.map((wanted, i) => have[i] - wanted).find((d) => d !== 0) ?? 0
  if (difference >= 0) return
  fail(`Node.js ${MINIMUM_NODE.join('.')} or newer is needed, this is ${process.versions.node} (${process.execPath})`)
}

/** @returns the text of a file, or undefined when it does not exist */
function readIfPresent(file) {
  return existsSync(file) ? readFileSync(file, 'utf8') : undefined
}

const sha256 = (text) => createHash('sha256').update(text).digest('hex')

/** The npm that called this script, or the one on the PATH when it was started by hand. */
function npmCommand() {
  const running = process.env.npm_execpath
  return running?.endsWith('.js') ? [process.execPath, running] : ['npm']
}

/** npm leaves out optional packages for other systems, and those that did not compile. */
function mayBeAbsent({ optional, devOptional, os, cpu, libc }) {
  if (!optional && !devOptional) return false
  const isForThisSystem = os?.includes(process.platform) && (cpu?.includes(process.arch) ?? true) && libc === undefined
  return !isForThisSystem
}

/**
 * npm ends an installation with a list of its packages, compared here with package-lock.json.
 * @param all whether development packages count
 */
function isInstalled(all) {
  const installed = readIfPresent(path.join(MODULES, '.package-lock.json'))
  if (installed === undefined) return false
  const { packages: present } = JSON.parse(installed)
  const { packages } = JSON.parse(readFileSync(path.join(ROOT, 'package-lock.json'), 'utf8'))
  const wanted = Object.entries(packages).filter(([where, one]) => /^node_modules/.test(where) && (all || !one.dev))
  return wanted.every(([where, one]) => (present[where] ? present[where].version === one.version : mayBeAbsent(one)))
}

/**
 * `npm start` runs without compiler, linter and browser driver. Install scripts compile the library of HSMs, which it
 * does not need; the one of this project is called here.
 */
const TO_START = ['--omit=dev', '--ignore-scripts']

/**
 * Installs package-lock.json unless that is done.
 *
 * A node_modules that is a symbolic link belongs to a shared checkout and is used unchanged: `npm
 * ci` would delete its target.
 */
async function install(all) {
  if (existsSync(MODULES) && lstatSync(MODULES).isSymbolicLink()) return
  if (isInstalled(all)) return

  const [npm, ...prefix] = npmCommand()
  const version = spawnSync(npm, [...prefix, '--version'], { encoding: 'utf8' })
  if (version.status !== 0) fail('npm was not found; it comes with Node.js, or as the package "npm" of your system')
  // graphene-pk11 (keys in an HSM) compiles against this Node's headers, or is left out without
  // them. Otherwise node-gyp would download headers from the web.
  process.env.npm_config_nodedir ||= path.dirname(path.dirname(realpathSync(process.execPath)))
  // The compiler is a development dependency, so NODE_ENV=production must not exclude it.
  const scope = all ? ['--include=dev'] : TO_START
  const args = [...prefix, 'ci', ...scope, '--no-audit', '--no-fund', '--no-progress']
  await step(all ? 'Installing all packages' : 'Installing the packages that it runs with', async () => {
    const failure = await outputOfFailure(npm, args)
    return failure ?? (all ? undefined : outputOfFailure(process.execPath, ['src/dev/remove-foreign-binaries.mjs']))
  })
}

/** @returns files below `folder` (relative to the root) whose name ends in one of `endings` */
function filesBelow(folder, endings) {
  const top = path.join(ROOT, folder)
  if (!existsSync(top)) return []
  const names = readdirSync(top, { recursive: true, encoding: 'utf8' })
  return names.filter((name) => endings.some((ending) => name.endsWith(ending))).map((name) => path.join(folder, name))
}

const compiledFrom = (source) => path.join('compiled', source.replace(/\.(c?)ts$/, '.$1js'))

/** Hashes name, size and time of every input of a step, which also detects deleted and older files. */
function fingerprint(sources) {
  const lines = [...sources, 'tsconfig.json', 'package-lock.json'].map((file) => {
    const { size, mtimeMs } = statSync(path.join(ROOT, file))
    return `${file} ${size} ${mtimeMs}`
  })
  return sha256(lines.sort().join('\n'))
}

/** Deletes compiled files without a source: a removed test must not keep running. */
function removeStale(expected) {
  for (const folder of SOURCE_FOLDERS) {
    for (const file of filesBelow(path.join('compiled', folder), ['.js', '.js.map', '.cjs', '.cjs.map'])) {
      if (!expected.has(file.replace(/\.map$/, ''))) rmSync(path.join(ROOT, file))
    }
  }
}

/** Runs a step of the build unless its inputs are as in its last run and its outputs are there. */
async function buildStep(title, { stampFile, inputs, isComplete, prepare = () => undefined, args }) {
  const stamp = fingerprint(inputs)
  const file = path.join(ROOT, stampFile)
  if (isComplete && readIfPresent(file) === stamp) return
  prepare()
  await step(title, () => outputOfFailure(process.execPath, args))
  mkdirSync(path.dirname(file), { recursive: true })
  writeFileSync(file, stamp)
}

/** The bundles that run, and the console. */
function bundle() {
  const endings = ['.ts', '.cts', '.tsx', '.mjs', '.css', '.html', '.svg', '.json']
  return buildStep('Building', {
    stampFile: 'dist/.built',
    inputs: BUNDLED_FOLDERS.flatMap((folder) => filesBelow(folder, endings)),
    isComplete: existsSync(CONSOLE_PAGE),
    args: [BUNDLER],
  })
}

/** Builds the program of `npm run package` in less than a second: it needs no types and no tests. */
function bundlePackager() {
  return step('Building the packager', () => outputOfFailure(process.execPath, [BUNDLER, 'packager']))
}

/** Each module by itself, with its types checked, for tests and tools. */
function compile() {
  const sources = SOURCE_FOLDERS.flatMap((folder) => filesBelow(folder, ['.ts', '.cts'])).filter(
    (file) => !file.startsWith(CONSOLE),
  )
  // Tests import what the console works out without a page, and so the compiler writes it, too.
  const consoleModules = filesBelow(CONSOLE, ['.ts'])
  const compiled = sources.filter((file) => !/\.d\.c?ts$/.test(file)).map(compiledFrom)
  const isComplete = compiled.every((file) => existsSync(path.join(ROOT, file)))
  return buildStep('Checking types and compiling', {
    stampFile: 'compiled/.built',
    inputs: [...sources, ...consoleModules],
    isComplete,
    prepare() {
      removeStale(new Set([...compiled, ...consoleModules.map(compiledFrom)]))
      // The incremental state does not notice deleted outputs; without the state everything is written again.
      if (!isComplete) rmSync(path.join(ROOT, 'compiled/.tsbuildinfo'), { force: true })
    },
    args: ['node_modules/typescript/bin/tsc', '-p', 'tsconfig.json'],
  })
}

/**
 * Runs the program in the foreground and ends with its exit code.
 *
 * A terminal sends Ctrl-C to the whole process group, so the program already has it. Every other signal is passed on.
 * This process stays until the program's orderly stop is over. By default SIGUSR1 would open a debugger here and
 * SIGUSR2 would end only this process, so both are passed on.
 */
function handOver(args) {
  const child = spawn(process.execPath, args, { cwd: ROOT, stdio: 'inherit' })
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP', 'SIGUSR1', 'SIGUSR2']) {
    process.on(signal, () => {
      if (signal !== 'SIGINT' || !process.stdin.isTTY) child.kill(signal)
    })
  }
  child.on('error', (error) => fail(`${process.execPath} could not be started: ${error.message}`))
  child.on('close', (code, signal) => process.exit(code ?? 128 + constants.signals[signal]))
}

checkNode()
const [command = '', ...rest] = process.argv.slice(2)
const program = PROGRAMS[command]
if (!program) fail(`usage: node src/dev/bootstrap.mjs ${Object.keys(PROGRAMS).join('|')} [arguments]`)
await install(command !== 'start')
await bundle()
if (command === 'package') await bundlePackager()
else if (command !== 'start') await compile()
handOver(program(rest))
