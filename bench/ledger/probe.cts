/**
 * Loaded into every thread of a server by NODE_OPTIONS: takes a CPU profile of it while the file `begin` is there.
 *
 * Worker threads hear no signal and may have no environment, so files beside this one begin and end it. `--cpu-prof`
 * would profile the start as well, and needs an orderly end of each thread.
 */

const processes = process.getBuiltinModule('node:child_process')
const fs = process.getBuiltinModule('node:fs')
const inspector = process.getBuiltinModule('node:inspector')
const modules = process.getBuiltinModule('node:module')
const path = process.getBuiltinModule('node:path')
const threads = process.getBuiltinModule('node:worker_threads')

const LOOK_MS = 50
const INTERVAL_MICROS = 2000

const name = (file: string) => path.join(__dirname, file)
/** Nanoseconds on a processor (proc_pid_schedstat(5)), as microseconds. */
const cpuMicros = () => Number(fs.readFileSync('/proc/thread-self/schedstat', 'latin1').split(' ')[0]) / 1000

/** The service gives its signer empty NODE_OPTIONS, so the probe is named once more (`src/settings/signer-settings.ts`). */
function followSigner(): void {
  const spawn = processes.spawn as (file: string, args: string[], options: { env?: NodeJS.ProcessEnv }) => object
  const spawnProbed: typeof spawn = (file, args, options) => {
    const isSigner = file === process.execPath && Array.isArray(args)
    const env = { ...options?.env, NODE_OPTIONS: process.env['NODE_OPTIONS'] }
    return spawn(file, args, isSigner ? { ...options, env } : options)
  }
  Object.assign(processes, { spawn: spawnProbed })
}

/** Threads for untrusted bytes have no environment (`workers/pool.ts`). */
class ProbedWorker extends threads.Worker {
  constructor(file: string | URL, options: import('node:worker_threads').WorkerOptions = {}) {
    const { env } = options
    const isBare = typeof env === 'object'
    super(file, isBare ? { ...options, env: { ...env, NODE_OPTIONS: process.env['NODE_OPTIONS'] } } : options)
  }
}

followSigner()
Object.assign(threads, { Worker: ProbedWorker })
modules.syncBuiltinESMExports()

let session: InstanceType<typeof inspector.Session> | undefined
let before = 0

setInterval(() => {
  if (session === undefined && fs.existsSync(name('begin')) && !fs.existsSync(name('end'))) begin()
  else if (session !== undefined && fs.existsSync(name('end'))) end(session)
}, LOOK_MS).unref()

function begin(): void {
  session = new inspector.Session()
  session.connect()
  session.post('Profiler.enable')
  session.post('Profiler.setSamplingInterval', { interval: INTERVAL_MICROS })
  session.post('Profiler.start')
  before = cpuMicros()
}

function end(ended: InstanceType<typeof inspector.Session>): void {
  const used = cpuMicros() - before
  ended.post('Profiler.stop', (error, result) => {
    ended.disconnect()
    session = undefined
    if (error) return
    const threadId = Number(path.basename(fs.readlinkSync('/proc/thread-self')))
    const taken = { pid: process.pid, threadId, isMain: threads.isMainThread, cpuMicros: used, profile: result.profile }
    const written = name(`${threadId}.json`)
    fs.writeFileSync(`${written}.part`, JSON.stringify(taken))
    fs.renameSync(`${written}.part`, written)
  })
}
