/**
 * A copy of this machine that only a test sees: an overlay in memory over the root, in namespaces of its own, with root's rights.
 * Debian's package `systemctl`, which reads units and starts programs, stands for systemd, which cannot run there.
 */

import { type ChildProcess, execFileSync, spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, readdirSync, readFileSync, readlinkSync, rmdirSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { skipUnlessAllRequired } from '../requirements.ts'
import { type CommandResult, runCommand } from '../run-command.ts'

const ROOT = path.resolve(import.meta.dirname, '../../../..')
/** Where a package or the manual puts it. */
export const CHECKOUT = '/opt/chancery'
/** The names of tests resolve to this address of the copy, which is not loopback. */
export const ADDRESS = '10.88.0.1'

export function requirePrivateHost(): { skip: string | false } {
  const { status } = spawnSync('unshare', ['--net', '--mount', '--pid', '--fork', 'true'], { stdio: 'ignore' })
  if (status === 0 && process.getuid?.() === 0) return { skip: false }
  return skipUnlessAllRequired('a copy of this machine cannot be made here; to enable: run as root, on a Debian system')
}

export interface PrivateHost {
  /** Runs a program in the copy, as root. */
  run(...words: string[]): Promise<CommandResult>
  /** @throws AssertionError-like Error unless it ends with 0 */
  must(...words: string[]): Promise<string>
  write(file: string, text: string, mode?: number): void
  read(file: string): string
  /** Words that start a program in the copy, for a test that speaks with it. */
  inside(...words: string[]): [file: string, args: string[]]
  close(): Promise<void>
}

/** Whiteouts hide what other tests have there: to remove it file by file failed while they wrote. */
const prepare = (folder: string, systemctl: string | undefined, hosts: readonly string[]) => `
  set -e
  mount -t tmpfs -o mode=755 private ${folder}
  mkdir -p ${folder}/upper/etc ${folder}/upper/var/lib ${folder}/work ${folder}/root
  for one in /etc/chancery /var/lib/chancery*; do if [ -e $one ]; then mknod ${folder}/upper$one c 0 0; fi; done
  mount -t overlay overlay -o lowerdir=/,upperdir=${folder}/upper,workdir=${folder}/work ${folder}/root
  cd ${folder}/root
  mount -t proc proc proc
  mount --rbind /dev dev
  mount -t tmpfs private tmp; chmod 1777 tmp
  mount -t tmpfs private run; mkdir -p run/lock run/postgresql
  chown postgres: run/postgresql
  rm -rf etc/postgresql/*/* var/lib/postgresql/*/*
  mkdir -p .${CHECKOUT} && mount --bind ${ROOT} .${CHECKOUT}
  rm -f usr/bin/node; touch usr/bin/node; mount --bind ${process.execPath} usr/bin/node
  rm -f usr/bin/systemctl; ${systemctl === undefined ? '' : `install -m 755 ${systemctl} usr/bin/systemctl`}
  ip link set lo up
  ip link add name out type bridge; ip address add ${ADDRESS}/24 dev out; ip link set out up
  echo 0 > /proc/sys/net/ipv4/ip_unprivileged_port_start
  ${hosts.map((name) => `echo '${ADDRESS} ${name}' >> etc/hosts`).join('; ')}
  exec chroot . sh -c 'echo ready; exec cat >/dev/null'
`

/** @param options.systemd false: nothing there starts units */
export async function openPrivateHost({ hosts = [] as readonly string[], systemd = true } = {}): Promise<PrivateHost> {
  const folder = mkdtempSync(path.join(tmpdir(), 'private-host-'))
  const script = prepare(folder, systemd ? systemctlProgram() : undefined, hosts)
  const holder = spawn('unshare', ['--mount', '--net', '--pid', '--fork', '--kill-child', 'sh', '-c', script], {
    stdio: ['pipe', 'pipe', 'inherit'],
  })
  const ended = once(holder, 'exit')
  const isReady = await Promise.race([once(holder.stdout, 'data').then(() => true), ended.then(() => false)])
  if (!isReady) throw new Error('the copy of this machine could not be made')
  const pid = childOf(holder)
  // A program would otherwise change this machine.
  if (readlinkSync(`/proc/${pid}/root`) === '/') throw new Error('the copy of this machine has no root of its own')
  const inside = (...words: string[]): [string, string[]] => [
    'nsenter',
    [`--target=${pid}`, '--mount', '--net', '--pid', '--root', '--', 'env', '--chdir=/', ...words],
  ]
  const run = (...words: string[]) => runCommand(...inside('-i', 'PATH=/usr/sbin:/usr/bin:/sbin:/bin', ...words))
  const at = (file: string) => `/proc/${pid}/root${file}`
  return {
    inside,
    run,
    async must(...words) {
      const { code, output } = await run(...words)
      if (code !== 0) throw new Error(`${words.join(' ')} ended with ${code}\n${output}`)
      return output
    },
    write: (file, text, mode = 0o600) => writeFileSync(at(file), text, { mode }),
    read: (file) => readFileSync(at(file), 'utf8'),
    async close() {
      holder.stdin.end()
      await ended
      rmdirSync(folder)
    },
  }
}

/** The process in the new namespace; it and all that it has started end with its input. */
function childOf({ pid }: ChildProcess): number {
  return Number(readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').trim())
}

let program: string | undefined

/** Taken out of Debian's package: it conflicts with systemd, so it is not installed. */
function systemctlProgram(): string {
  if (program !== undefined) return program
  const folder = mkdtempSync(path.join(tmpdir(), 'systemctl-'))
  process.once('exit', () => rmSync(folder, { recursive: true, force: true }))
  execFileSync('apt-get', ['download', '-qq', 'systemctl'], { cwd: folder, stdio: ['ignore', 'ignore', 'ignore'] })
  const [archive = ''] = readdirSync(folder)
  execFileSync('dpkg-deb', ['-x', archive, '.'], { cwd: folder })
  program = path.join(folder, 'usr/bin/systemctl')
  // It does not know Type=exec, which differs from simple in when a start counts as done.
  writeFileSync(program, readFileSync(program, 'utf8').replaceAll('"idle"', '"idle", "exec"'))
  return program
}

/** A cluster as Debian's package makes it. */
export async function startPostgres(host: PrivateHost): Promise<void> {
  const [version = ''] = readdirSync('/usr/lib/postgresql').sort((a, b) => Number(b) - Number(a))
  await host.must('pg_createcluster', version, 'main', '--', '--no-sync')
  await host.must('pg_ctlcluster', version, 'main', 'start')
}
