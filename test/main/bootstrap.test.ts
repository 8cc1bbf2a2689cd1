/** The way of every npm script from sources to the running program, in a small project of its own. */

import assert from 'node:assert/strict'
import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { copyFileSync, existsSync, mkdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { createInterface } from 'node:readline'
import { afterEach, before, describe, test } from 'node:test'
import { assertPortFree } from '../../src/http/start-checks.ts'
import { freePort } from '../support/free-port.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'

const TREE = path.resolve(import.meta.dirname, '../../..')

const MAIN = "import { word } from './word.js'\nprocess.stdout.write(word)\ndeclare const process: any\n"
const WORD = "export const word: string = 'first'\n"

describe('npm scripts', () => {
  /** One for all, since to build it is most of a test's time; each test leaves it as it was. */
  const root = temporaryFolder()

  const write = (file: string, content: string | object) => {
    const target = path.join(root, file)
    const text = typeof content === 'string' ? content : JSON.stringify(content)
    // What is written anew is built anew.
    if (existsSync(target) && readFileSync(target, 'utf8') === text) return
    mkdirSync(path.dirname(target), { recursive: true })
    writeFileSync(target, text)
  }
  const lock = (packages: Record<string, object>) => ({ packages: { '': { name: 'small' }, ...packages } })
  const TYPESCRIPT = { 'node_modules/typescript': { version: '1.0.0' } }

  before(() => {
    mkdirSync(path.join(root, 'src/dev'), { recursive: true })
    copyFileSync(path.join(TREE, 'src/dev/bootstrap.mjs'), path.join(root, 'src/dev/bootstrap.mjs'))
    mkdirSync(path.join(root, 'node_modules'))
    symlinkSync(path.join(TREE, 'node_modules/typescript'), path.join(root, 'node_modules/typescript'))
    write('package.json', { type: 'module', config: { nodeFlags: '--max-semi-space-size=4' } })
    write('tsconfig.json', {
      compilerOptions: { module: 'nodenext', rootDir: '.', outDir: 'compiled', types: [], strict: true },
      include: ['bench/**/*.ts'],
    })
    write('package-lock.json', lock(TYPESCRIPT))
    write('node_modules/.package-lock.json', lock(TYPESCRIPT))
    write('bench/main.ts', MAIN)
    write('bench/word.ts', WORD)
    write('bench/foreign.d.ts', 'export const foreign: number\n')
    // What the real bundler leaves is in test/console.
    write(
      'src/dev/build.mjs',
      `import { mkdirSync, writeFileSync } from 'node:fs'
mkdirSync('dist/console', { recursive: true })
mkdirSync('dist/src/cli', { recursive: true })
writeFileSync('dist/console/index.html', '')
writeFileSync('dist/src/cli/main.js', 'process.stdout.write("started")')
`,
    )
    write('src/dev/remove-foreign-binaries.mjs', '')
  })
  afterEach(() => {
    write('bench/main.ts', MAIN)
    write('bench/word.ts', WORD)
    write('package-lock.json', lock(TYPESCRIPT))
    write('node_modules/.package-lock.json', lock(TYPESCRIPT))
  })

  /** With an npm that installs nothing and notes its arguments. */
  function run(script = 'bench') {
    write('npm/package.json', {})
    write('npm/npm.js', "require('fs').appendFileSync('npm-calls', process.argv.slice(2).join(' ') + '\\n')")
    const env = { ...process.env, npm_execpath: path.join(root, 'npm/npm.js') }
    const { stdout, stderr, status } = spawnSync(process.execPath, ['src/dev/bootstrap.mjs', script], {
      cwd: root,
      env,
      encoding: 'utf8',
    })
    const calls = path.join(root, 'npm-calls')
    const npm = existsSync(calls) ? readFileSync(calls, 'utf8').trim().split('\n') : []
    rmSync(calls, { force: true })
    return { stdout, stderr, status, npm }
  }

  test('build what is not built, and the next time nothing at all, declarations of foreign code beside it', () => {
    assert.match(run().stderr, /^Building … [\d.]+ s\nChecking types and compiling … [\d.]+ s\n$/)
    assert.deepEqual(run(), { stdout: 'first', stderr: '', status: 0, npm: [] })
  })

  test('build again when a source changed, or an output was deleted, and delete what has no source any more', () => {
    run()
    write('bench/word.ts', "export const word: string = 'second'\n")
    const changed = run()
    assert.deepEqual([changed.stdout, /^Checking types/.test(changed.stderr)], ['second', true])
    rmSync(path.join(root, 'compiled/bench/word.js'))
    assert.equal(run().stdout, 'second')
    write('bench/gone.ts', 'export const gone = 1\n')
    run()
    rmSync(path.join(root, 'bench/gone.ts'))
    run()
    assert.equal(existsSync(path.join(root, 'compiled/bench/gone.js')), false)
  })

  test('start the service without a compiler, a type that is wrong or not', () => {
    write('bench/word.ts', 'export const word: string = 1\n')
    rmSync(path.join(root, 'dist'), { recursive: true, force: true })
    const { stdout, stderr, status } = run('start')
    assert.deepEqual([stdout, status], ['started', 0])
    assert.match(stderr, /^Building … [\d.]+ s\n$/)
  })

  test('say what the compiler says, and run nothing', () => {
    write('bench/word.ts', 'export const word: string = 1\n')
    const { stdout, stderr, status } = run()
    assert.deepEqual([stdout, status], ['', 1])
    assert.match(stderr, /^Checking types and compiling … failed after .* s\n\nbench\/word\.ts.*error TS2322/)
    assert.match(stderr, /chancery: checking types and compiling failed; the output above says why\n$/)
  })

  // In the program that waits, too, a debugger would be everybody's.
  test('SIGUSR1 and SIGUSR2 go to the program', async (context) => {
    const port = await freePort()
    write(
      'bench/main.ts',
      `declare const process: any
for (const signal of ['SIGUSR1', 'SIGUSR2']) process.on(signal, () => process.stdout.write(signal + '\\n'))
process.on('SIGTERM', () => process.exit(0))
setInterval(() => {}, 1000)
process.stdout.write('up\\n')
`,
    )
    const child = spawn(process.execPath, [`--inspect-port=${port}`, 'src/dev/bootstrap.mjs', 'bench'], {
      cwd: root,
      stdio: ['ignore', 'pipe', 'ignore'],
    })
    context.after(() => child.kill('SIGKILL'))
    const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]()
    assert.equal((await lines.next()).value, 'up')
    for (const signal of ['SIGUSR1', 'SIGUSR2'] as const) {
      child.kill(signal)
      assert.equal((await lines.next()).value, signal)
    }
    await assertPortFree('127.0.0.1', port)
    const ended = once(child, 'exit')
    child.kill('SIGTERM')
    assert.deepEqual(await ended, [0, null])
  })

  describe('install', () => {
    const INSTALL = ['--version', 'ci --include=dev --no-audit --no-fund --no-progress']

    test('nothing after npm has installed it all, but for what other systems or a missing compiler leave out', () => {
      const elsewhere = { version: '1.0.0', optional: true, os: ['plan9'], cpu: ['mips'] }
      const notCompiled = { version: '1.0.0', optional: true }
      const wanted = { ...TYPESCRIPT, 'node_modules/a': elsewhere, 'node_modules/b': notCompiled }
      write('package-lock.json', lock(wanted))
      assert.deepEqual(run().npm, [])
    })
    const { platform, arch } = process
    for (const [what, wanted] of Object.entries({
      'another version of one': { 'node_modules/typescript': { version: '1.0.1' } },
      'one more': { ...TYPESCRIPT, 'node_modules/a': { version: '1.0.0' } },
      'one for this system': {
        ...TYPESCRIPT,
        'node_modules/a': { version: '1.0.0', optional: true, os: [platform], cpu: [arch] },
      },
    })) {
      test(`where the lock file wants ${what}`, () => {
        write('package-lock.json', lock(wanted))
        assert.deepEqual(run().npm, INSTALL)
      })
    }
    test('what the service runs with, to start it', () => {
      const tool = { version: '1.0.0', dev: true }
      write('package-lock.json', lock({ ...TYPESCRIPT, 'node_modules/tool': tool }))
      assert.deepEqual(run('start').npm, [])
      write('package-lock.json', lock({ ...TYPESCRIPT, 'node_modules/tool': { version: '1.0.0' } }))
      assert.deepEqual(run('start').npm, [
        '--version',
        'ci --omit=dev --ignore-scripts --no-audit --no-fund --no-progress',
      ])
    })
    test('where an installation was broken off', () => {
      rmSync(path.join(root, 'node_modules/.package-lock.json'))
      assert.deepEqual(run().npm, INSTALL)
    })
  })
})
