/** What the log writes and what it must never write. */

import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { existsSync, openSync, readFileSync, statfsSync, writeFileSync, writeSync } from 'node:fs'
import path from 'node:path'
import { test } from 'node:test'
import { WAIT_MS } from '../../support/patience.ts'
import { canMount, type SmallDisk, startDisk } from '../../support/small-disk.ts'
import { temporaryFolder } from '../../support/temporary-folder.ts'

const LOGGING = new URL('../../../src/ops/logging.js', import.meta.url).href

/** What a process of its own writes to standard output when it logs these facts: a value, or an expression that makes one. */
function written(format: 'json' | 'human', facts: object | string): string {
  const program = `
    const { createLogger } = await import(${JSON.stringify(LOGGING)})
    const { log, flush } = createLogger({ level: 'INFO', format: ${JSON.stringify(format)} }, 'main')
    log.info(${typeof facts === 'string' ? facts : JSON.stringify(facts)}, 'something happened')
    flush()`
  const { status, stdout, stderr } = spawnSync(process.execPath, ['--input-type=module', '-e', program], {
    encoding: 'utf8',
  })
  assert.equal(status, 0, stderr)
  return stdout
}

const SECRETS = ['password', 'secret', 'pin', 'token_secret', 'hmac_key', 'eab_hmac_key', 'auth_value', 'd']

for (const format of ['json', 'human'] as const) {
  test(`secrets are cut out at every depth that is promised, in ${format}`, () => {
    const facts = Object.fromEntries(SECRETS.map((name) => [name, `hush-${name}`]))
    const text = written(format, { ...facts, database: facts, config: { database: facts }, kept: 'visible' })
    assert.doesNotMatch(text, /hush/)
    assert.equal(text.match(/\[redacted\]/g)?.length, 3 * SECRETS.length)
    assert.match(text, /visible/)
  })

  test(`secrets that an error or a list carries are cut out as well, in ${format}`, () => {
    const error = "Object.assign(new Error('lost'), { password: 'hush', config: { pin: 'hush' } })"
    const text = written(format, `{ err: ${error}, cause: ${error}, list: [{ secret: 'hush' }] }`)
    assert.doesNotMatch(text, /hush/)
    assert.match(text, /"message":"lost"/)
    assert.match(text, /"list":\[\{"secret":"\[redacted\]"\}\]|list=\[\{"secret":"\[redacted\]"\}\]/)
  })

  test(`a date and bytes are written as JSON has them, in ${format}`, () => {
    const text = written(format, '{ at: new Date(0), bytes: Buffer.from("a") }')
    assert.match(text, /1970-01-01T00:00:00\.000Z/)
    assert.match(text, /"data":\[97\]/)
  })

  test(`control characters of a client never reach a terminal or make a second line, in ${format}`, () => {
    const text = written(format, {
      path: '/a\u001b[31mb\r\nc\u0007\u0085\u009b2J',
      nested: { path: '\u001b]0;x\u0007\u009b' },
    })
    assert.equal(text.split('\n').length, 2)
    // biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is looked for
    assert.doesNotMatch(text.slice(0, -1), format === 'json' ? /[\u0000-\u001f]/ : /[\u0000-\u001f\u007f-\u009f]/)
    assert.match(text, /something happened/)
  })
}

test('a front thread that is killed has written its lines with an event, whatever else it holds back', () => {
  const program = `
    const { createLogger } = await import(${JSON.stringify(LOGGING)})
    const { log } = createLogger({ level: 'INFO', format: 'json' }, 'front-1', { buffered: true })
    log.info({ event: 'certificate_issued' }, 'certificate issued')
    setTimeout(() => process.kill(process.pid, 'SIGKILL'), 500)`
  const { stdout, signal } = spawnSync(process.execPath, ['--input-type=module', '-e', program], { encoding: 'utf8' })
  assert.equal(signal, 'SIGKILL')
  assert.match(stdout, /"event":"certificate_issued"/)
})

/** Runs a program that logs, with standard output in a file of a disk that is full until the program makes room. */
function onFullDisk(disk: SmallDisk, program: string) {
  const file = path.join(disk.folder, 'log')
  const [ballast, fd] = [path.join(disk.folder, 'ballast'), openSync(file, 'a')]
  // All but a part of a line, so that the first line that is refused is a cut one.
  const { bavail, bsize } = statfsSync(disk.folder)
  writeSync(fd, `${'x'.repeat(bsize - 40)}\n`)
  writeFileSync(ballast, Buffer.alloc((Number(bavail) - 1) * Number(bsize)))
  const { status, signal, stderr } = spawnSync(process.execPath, ['--input-type=module', '-e', program, ballast], {
    stdio: ['ignore', fd, 'pipe'],
    encoding: 'utf8',
    timeout: WAIT_MS,
  })
  assert.deepEqual([status, signal, stderr], [0, null, ''])
  return readFileSync(file, 'utf8').trimEnd().split('\n').slice(1)
}

for (const [how, meanwhile] of [
  ['was refused a line as well', "two.log.info('refused'); await until(() => dropped === 2); rmSync(process.argv[1])"],
  ['had no line meanwhile', 'rmSync(process.argv[1]); await until(() => fstatSync(1).size > size)'],
] as const)
  test(`behind a line that a full disk cut, the line of another thread that ${how} stands alone`, {
    skip: !canMount && 'needs to mount a tmpfs',
  }, async () => {
    const folder = temporaryFolder()
    const disk = await startDisk(folder, 256 * 1024)
    try {
      const lines = onFullDisk(
        disk,
        `
        const { createLogger } = await import(${JSON.stringify(LOGGING)})
        const { fstatSync, rmSync } = await import('node:fs')
        let dropped = 0
        const metrics = { logLinesDropped: { inc: (lines) => { dropped += lines } } }
        const until = async (what) => { while (!what()) await new Promise((go) => setTimeout(go, 5)) }
        const [one, two] = ['one', 'two'].map((name) => createLogger({ level: 'INFO', format: 'json' }, name, { metrics }))
        one.log.info('cut')
        await until(() => dropped === 1)
        const { size } = fstatSync(1)
        ${meanwhile}
        two.log.info('after')
        two.flush()
        one.flush()`,
      )
      assert.ok(
        lines.some((line) => /^\{[^{}]*"after"\}$/.test(line)),
        lines.join('\n'),
      )
    } finally {
      disk.stop()
    }
  })

for (const buffered of [false, true]) {
  const how = buffered ? 'a front thread' : 'the supervisor'
  test(`lines of ${how} that a full disk refuses are dropped and counted, and one line says so`, {
    skip: !canMount && 'needs to mount a tmpfs',
  }, async () => {
    const folder = temporaryFolder()
    const disk = await startDisk(folder, 256 * 1024)
    try {
      const lines = onFullDisk(
        disk,
        `
        const { createLogger } = await import(${JSON.stringify(LOGGING)})
        const { rmSync } = await import('node:fs')
        let dropped = 0
        const metrics = { logLinesDropped: { inc: (lines) => { dropped += lines } } }
        const { log, flush } = createLogger({ level: 'INFO', format: 'json' }, 'one', { buffered: ${buffered}, metrics })
        const until = async (what) => { while (!what()) await new Promise((go) => setTimeout(go, 5)) }
        for (let n = 0; n < 200; n++) log.info({ event: 'n', n }, 'in between')
        await until(() => dropped === 200)
        rmSync(process.argv[1])
        log.info({ event: 'after' }, 'after')
        await until(() => dropped === 200)
        flush()`,
      )
      // What the full disk took of the first refused line stands alone.
      const whole = lines.filter((line) => line.endsWith('}')).map((line) => JSON.parse(line))
      assert.ok(lines.length - whole.length <= 1, lines.join('\n'))
      assert.deepEqual(
        whole.map(({ message, lost }) => [message, lost]),
        [
          ['after', undefined],
          ['standard output takes lines again; those in between are lost', 200],
        ],
      )
    } finally {
      disk.stop()
    }
  })

  test(`${how} ends when its last lines cannot be written`, { skip: !existsSync('/dev/full') }, () => {
    const program = `
      const { createLogger } = await import(${JSON.stringify(LOGGING)})
      const { log, flush } = createLogger({ level: 'INFO', format: 'json' }, 'one', { buffered: ${buffered} })
      log.info('something')
      flush()`
    const fd = openSync('/dev/full', 'w')
    const { status, signal } = spawnSync(process.execPath, ['--input-type=module', '-e', program], {
      stdio: ['ignore', fd, 'inherit'],
      timeout: WAIT_MS,
    })
    assert.deepEqual([status, signal], [0, null])
  })
}

test('lines of several threads stay whole in a pipe whose reader is slow', () => {
  const program = `
    const { Worker, isMainThread, workerData } = await import('node:worker_threads')
    const { createLogger } = await import(${JSON.stringify(LOGGING)})
    // The pipe no longer blocks, as in every program (src/shared/command-line.ts).
    process.stdout.on('error', () => undefined)
    const { log, flush } = createLogger({ level: 'INFO', format: 'json' }, isMainThread ? 'main' : workerData, { buffered: !isMainThread })
    if (isMainThread) for (const name of ['front-1', 'front-2']) new Worker(new URL(process.argv[1]), { workerData: name, argv: [process.argv[1]] })
    for (let n = 0; n < 400; n++) {
      log.info({ n, pad: 'x'.repeat(300) }, 'a line')
      if (n % 20 === 0) await new Promise((go) => setTimeout(go, 5))
    }
    flush()`
  const url = `data:text/javascript,${encodeURIComponent(program)}`
  const reader = `
    const { readSync, writeSync } = require('node:fs')
    const piece = Buffer.alloc(6000)
    for (let bytes = 1; bytes > 0; writeSync(1, piece, 0, bytes)) {
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 4)
      bytes = readSync(0, piece)
    }`
  // Node.js itself would give the child a socket.
  const pipe = '"$0" --input-type=module -e "$1" "$2" | "$0" -e "$3"'
  const { stdout } = spawnSync('sh', ['-c', pipe, process.execPath, program, url, reader], {
    encoding: 'utf8',
    maxBuffer: 2 ** 24,
  })
  const lines = stdout.trimEnd().split('\n')
  for (const line of lines) assert.match(line, /^\{"level"[^{}]*\}$/)
  assert.ok(lines.length >= 1180, `${lines.length}`)
})
