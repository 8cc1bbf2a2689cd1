/**
 * Network namespaces of a test: hosts on a bridge that only the test sees, each of which can be cut off.
 *
 * `runAlone` starts a program with a network and process numbers of its own. When it ends, however it ends, the kernel ends
 * everything that it has started and removes every interface.
 */

import { execFileSync, fork, type Serializable, spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { readdirSync, readlinkSync } from 'node:fs'
import { skipUnlessAllRequired } from '../requirements.ts'

/** Options for `test`: namespaces are made by root, or where users may make their own. */
export function requireNamespaces(): { skip: string | false } {
  const { status } = spawnSync('unshare', ['--net', '--pid', '--fork', 'true'], { stdio: 'ignore' })
  if (status === 0) return { skip: false }
  return skipUnlessAllRequired('network namespaces cannot be made here; to enable: run as root')
}

/** The end of what a program said says why it failed. */
const MOST_COMPLAINT = 4_000

/** The first process of a process namespace reaps what its children leave behind: dash does, Node.js does not. */
const INIT = ['sh', '-c', '"$@"; exit $?', 'sh']

/**
 * Runs a program of the tests in namespaces of its own.
 * @returns what it sends by `process.send`
 * @throws Error when it ends without
 */
export async function runAlone(program: string, args: readonly string[]): Promise<Serializable> {
  const child = fork(program, args, {
    execPath: 'unshare',
    execArgv: ['--net', '--pid', '--fork', '--kill-child=KILL', '--mount-proc', ...INIT, process.execPath],
    stdio: ['ignore', 'inherit', 'pipe', 'ipc'],
  })
  const results: Serializable[] = []
  let complaint = ''
  child.stderr?.on('data', (chunk: Buffer) => {
    complaint = (complaint + chunk).slice(-MOST_COMPLAINT)
  })
  child.on('message', (message) => results.push(message))
  const [code] = (await once(child, 'close')) as [number | null]
  const result = results.at(-1)
  if (code !== 0 || result === undefined) throw new Error(`${program} ended with ${code}: ${complaint}`)
  return result
}

export interface Network {
  /** This process's own address on the bridge. */
  address: string
  addHost(address: string): Promise<NetworkHost>
}

export interface NetworkHost {
  address: string
  /** Arguments before a program's, so that it runs there, as this user and group. */
  command(uid: number, gid: number, file: string, ...args: string[]): [file: string, args: string[]]
  /** Packets vanish in both directions: all of them, or those from and to these addresses. Neither end is told. */
  cut(from?: readonly string[]): void
  heal(): void
  /** Ids of what runs there now. */
  processes(): number[]
}

/** A bridge in the namespace of this process, which `runAlone` has started. */
export function openNetwork(prefix = '10.77.0'): Network {
  const address = `${prefix}.254`
  ip('link set lo up')
  ip('link add name bridge type bridge')
  ip(`address add ${address}/24 dev bridge`)
  ip('link set bridge up')
  return { address, addHost }
}

async function addHost(address: string): Promise<NetworkHost> {
  // It ends with this process, and the namespace with it.
  const holder = spawn('unshare', ['--net', 'sh', '-c', 'echo; exec cat >/dev/null'], {
    stdio: ['pipe', 'pipe', 'inherit'],
  })
  await once(holder.stdout, 'data')
  const inside = `--net=/proc/${holder.pid}/ns/net`
  const name = `to-${address.split('.').at(-1)}`
  ip(`link add ${name} type veth peer name eth0 netns ${holder.pid}`)
  ip(`link set ${name} master bridge up`)
  for (const args of ['link set lo up', `address add ${address}/24 dev eth0`, 'link set eth0 up'])
    execFileSync('nsenter', [inside, 'ip', ...args.split(' ')])
  const filter = (rules: string) => execFileSync('nsenter', [inside, 'nft', '-f', '-'], { input: rules })
  return {
    address,
    command: (uid, gid, file, ...args) => [
      'nsenter',
      [inside, `--setuid=${uid}`, `--setgid=${gid}`, '--', file, ...args],
    ],
    cut(from) {
      const [source, destination] = from
        ? [`ip saddr { ${from.join(', ')} }`, `ip daddr { ${from.join(', ')} }`]
        : ['iifname != "lo"', 'oifname != "lo"']
      filter(`
        table inet cut {
          chain in { type filter hook input priority 0
            ${source} drop
          }
          chain out { type filter hook output priority 0
            ${destination} drop
          }
        }
      `)
    },
    heal: () => void filter('delete table inet cut\n'),
    processes: () => processesIn(namespaceOf(holder.pid as number) ?? '').filter((pid) => pid !== holder.pid),
  }
}

function processesIn(namespace: string): number[] {
  const pids = readdirSync('/proc').map(Number).filter(Number.isInteger)
  return pids.filter((pid) => namespaceOf(pid) === namespace)
}

/** @returns undefined for a process that has ended */
function namespaceOf(pid: number): string | undefined {
  try {
    return readlinkSync(`/proc/${pid}/ns/net`)
  } catch {
    return undefined
  }
}

function ip(args: string): void {
  execFileSync('ip', args.split(' '))
}
