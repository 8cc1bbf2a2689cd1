/**
 * Containers by podman and crun, as closed as our examples have them. They have namespaces of their own, so that the kernel ends
 * them all, and unmounts what they have mounted, when the test ends.
 */

import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { createInterface } from 'node:readline'
import { type CommandResult, mustRun, runCommand } from './run-command.ts'
import { until } from './until.ts'
import { words } from './words.ts'

export interface ContainerPlan {
  image: string
  /** Without one, the image's own command runs. */
  command?: readonly string[]
  user?: string | undefined
  groups?: readonly (string | number)[]
  env?: Readonly<Record<string, string>>
  mounts?: readonly Mount[]
  /** The machine's own network, or none at all. */
  network: 'host' | 'none'
}

export interface Mount {
  from: string
  to: string
  isWritable?: boolean
}

export interface RunningContainer {
  name: string
  lines: string[]
  /** Resolves at a line with this in it. @throws Error when the container ends before */
  says(text: string): Promise<string>
  /** SIGTERM, and its exit code. */
  stop(): Promise<number | null>
}

export interface Containers {
  /** Words for `podman`. @throws AssertionError unless it ends with 0 */
  podman(...words: string[]): Promise<string>
  start(plan: ContainerPlan): RunningContainer
  /** Runs it to its end. */
  run(plan: ContainerPlan): Promise<CommandResult>
  /** A command in a container that runs. */
  exec(container: RunningContainer, ...command: string[]): Promise<CommandResult>
  close(): Promise<void>
}

/** crun knows no mixture of both versions of cgroups, which some machines have. Podman's own files lie below /run. */
const NAMESPACE = `
umount -R /sys/fs/cgroup && mount -t cgroup2 none /sys/fs/cgroup
for place in /run /dev/shm; do mount -t tmpfs none $place; done
echo ready; exec cat >/dev/null`
/** The defaults are above the limits that some machines have. */
const CONFIGURATION = `[containers]
cgroups = "disabled"
default_ulimits = ["nofile=4096:4096", "nproc=4096:4096"]
[engine]
cgroup_manager = "cgroupfs"
events_logger = "none"
`

interface Storage {
  /** Where containers and new images are, and stay; without it, in a folder that goes with them. */
  storage?: string
  /** The storage of another, whose images are known here. */
  images?: string
}

export async function openContainers({ storage, images }: Storage = {}): Promise<Containers> {
  const folder = mkdtempSync(path.join(tmpdir(), 'chancery-containers-'))
  const place = storage ?? path.join(folder, 'storage')
  const file = (name: string, text: string) => {
    writeFileSync(path.join(folder, name), text)
    return path.join(folder, name)
  }
  mkdirSync(place)
  const env = {
    CONTAINERS_CONF: file('containers.conf', CONFIGURATION),
    CONTAINERS_STORAGE_CONF: file(
      'storage.conf',
      `[storage]\ndriver = "overlay"\ngraphroot = "${place}"\nrunroot = "/run/storage"
${images === undefined ? '' : `[storage.options]\nadditionalimagestores = ["${images}"]\n`}`,
    ),
  }
  const holder = spawn(
    'unshare',
    words`--mount --propagation=private --pid --fork --kill-child=KILL --mount-proc sh -ec ${NAMESPACE}`,
    { stdio: ['pipe', 'pipe', 'inherit'] },
  )
  await once(holder.stdout, 'data')
  const inside = readFileSync(`/proc/${holder.pid}/task/${holder.pid}/children`, 'utf8').trim()
  const within = ['--mount', '--pid', `--target=${inside}`, 'podman']
  let count = 0
  const wordsOf = (plan: ContainerPlan, name: string) => ['run', '--rm', `--name=${name}`, ...optionsOf(plan)]
  return {
    podman: (...words) => mustRun('nsenter', [...within, ...words], { env }),
    run: (plan) => runCommand('nsenter', [...within, ...wordsOf(plan, `once-${++count}`)], { env }),
    start(plan) {
      const name = `container-${++count}`
      return follow(
        name,
        spawn('nsenter', [...within, ...wordsOf(plan, name)], { env: { ...process.env, ...env } }),
        () => runCommand('nsenter', [...within, 'kill', '--signal=TERM', name], { env }),
      )
    },
    exec: ({ name }, ...command) => runCommand('nsenter', [...within, 'exec', name, ...command], { env }),
    async close() {
      holder.stdin.end()
      await once(holder, 'close')
      rmSync(folder, { recursive: true, force: true })
    },
  }
}

function optionsOf({
  image,
  command = [],
  user,
  groups = [],
  env = {},
  mounts = [],
  network,
}: ContainerPlan): string[] {
  return [
    '--read-only',
    '--read-only-tmpfs=false',
    '--cap-drop=all',
    '--security-opt=no-new-privileges',
    `--network=${network}`,
    ...(user === undefined ? [] : [`--user=${user}`]),
    ...groups.map((group) => `--group-add=${group}`),
    ...Object.entries(env).map(([name, value]) => `--env=${name}=${value}`),
    ...mounts.map(({ from, to, isWritable }) => `--volume=${from}:${to}:${isWritable ? 'rw' : 'ro'}`),
    image,
    ...command,
  ]
}

function follow(name: string, child: ChildProcess, terminate: () => Promise<unknown>): RunningContainer {
  const lines: string[] = []
  for (const stream of [child.stdout, child.stderr])
    createInterface({ input: stream as NodeJS.ReadableStream }).on('line', (line) => lines.push(line))
  const ended = once(child, 'close') as Promise<[number | null]>
  return {
    name,
    lines,
    says: (text) =>
      until(`${name} to say ${text}`, () => {
        const line = lines.find((one) => one.includes(text))
        if (line === undefined && child.exitCode !== null)
          throw new Error(`${name} has ended before it said ${text}:\n${lines.join('\n')}`)
        return line
      }),
    async stop() {
      await terminate()
      return (await ended)[0]
    },
  }
}
