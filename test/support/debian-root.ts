/**
 * Debian 12 and 13 in folders: a base made by mmdebstrap, and hosts above it that each see a copy of their own. A host has the
 * network of this machine, and namespaces of its own for mounts and processes, so that the kernel ends what runs there.
 */

import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { contentOf, debianState, made } from './made.ts'
import { requireNamespaces } from './own-network.ts'
import { requireAll, requireCommand } from './requirements.ts'
import { type CommandResult, mustRun, runCommand } from './run-command.ts'

export type DebianRelease = 'bookworm' | 'trixie'

export const debianRoots = requireAll(requireNamespaces(), requireCommand('mmdebstrap'))

/** Units run without an init system, by Debian's package `systemctl`. */
const UNITS = ['systemctl', 'systemd-standalone-sysusers', 'systemd-standalone-tmpfiles', 'procps']
/** Packages that tests need beside Debian's minimum: a base is made once for all tests. */
const PACKAGES: Record<DebianRelease, readonly string[]> = {
  bookworm: ['ca-certificates', ...UNITS, 'postgresql', 'softhsm2'],
  trixie: ['ca-certificates', ...UNITS, 'postgresql', 'softhsm2', 'nodejs', 'openssl', 'kubernetes-client'],
}
/** Nothing here is worth a wait for the disk; pages of the packages of Debian are not read. */
const QUICK = ['--dpkgopt=force-unsafe-io', '--dpkgopt=path-exclude=/usr/share/locale/*', ...withoutPages()]

function withoutPages(): string[] {
  const pages = ['doc', 'info', 'man'].map((name) => `--dpkgopt=path-exclude=/usr/share/${name}/*`)
  // Packages that a host installs later have their pages again.
  return [...pages, '--customize-hook=rm "$1"/etc/dpkg/dpkg.cfg.d/99mmdebstrap']
}

/** @returns the folder of its root, which nobody may change */
export async function debianBase(release: DebianRelease): Promise<string> {
  const include = `--include=${PACKAGES[release].join(',')}`
  const options = ['--quiet', '--variant=apt', '--aptopt=Acquire::Languages "none"', ...QUICK, include, release]
  const inputs = { options, finished: contentOf(import.meta.filename), debian: debianState() }
  const folder = await made(release, inputs, async (at) => {
    const root = path.join(at, 'root')
    await mustRun('mmdebstrap', [...options, root])
    finishBase(root)
  })
  return path.join(folder, 'root')
}

function finishBase(root: string): void {
  // The package systemd has this preset, too: it enables what is installed.
  const preset = path.join(root, 'usr/lib/systemd/system-preset/90-systemd.preset')
  mkdirSync(path.dirname(preset), { recursive: true })
  writeFileSync(preset, 'enable *\n')
  // It does not know this type, which waits until the program has begun.
  const units = path.join(root, 'usr/bin/systemctl')
  const known = readFileSync(units, 'utf8').replaceAll(
    '"Type", "simple").lower()',
    '"Type", "simple").lower().replace("exec", "simple")',
  )
  writeFileSync(units, known)
}

export interface DebianHost {
  /** Runs it as root, by `sh -c`. */
  tryRun(command: string, env?: Record<string, string>): Promise<CommandResult>
  /** @throws AssertionError with what it said, unless it ended with 0 */
  run(command: string, env?: Record<string, string>): Promise<string>
  /** Relative to the host's root; parent folders are made. */
  write(file: string, text: string): Promise<void>
  end(): Promise<void>
}

const ENVIRONMENT = ['PATH=/usr/sbin:/usr/bin:/sbin:/bin', 'DEBIAN_FRONTEND=noninteractive', 'PYTHONWARNINGS=ignore']

/** Its first process takes over what others leave behind; it ends when its standard input does. */
const INIT = `
set -e
folder=$1 lower=$2
shift 2
mount -t tmpfs tmpfs "$folder"
mkdir "$folder/upper" "$folder/work" "$folder/root"
mount -t overlay overlay -o "lowerdir=$lower,upperdir=$folder/upper,workdir=$folder/work" "$folder/root"
mount -t proc proc "$folder/root/proc"
mount --rbind /dev "$folder/root/dev"
mkdir -p "$folder/root/run/systemd/system"
for bind; do
  mkdir -p "$folder/root\${bind#*:}"
  mount --rbind "\${bind%%:*}" "$folder/root\${bind#*:}"
done
echo ready
cat >/dev/null
`

/** Into a file first: what a command leaves running would hold a pipe open. */
const RUN = 'said=$(mktemp); sh -c "$1" >"$said" 2>&1 </dev/null; code=$?; cat "$said"; rm "$said"; exit $code'

/** @param binds folders of this machine → where the host has them */
export async function openHost(release: DebianRelease, binds: Record<string, string> = {}): Promise<DebianHost> {
  const base = await debianBase(release)
  const folder = mkdtempSync(path.join(tmpdir(), `chancery-${release}-`))
  const mounts = Object.entries(binds).map(([from, to]) => `${from}:${to}`)
  const places = [folder, base, ...mounts]
  const init = spawn(
    'unshare',
    ['--mount', '--pid', '--fork', '--kill-child=KILL', 'sh', '-c', INIT, 'sh', ...places],
    {
      stdio: ['pipe', 'pipe', 'inherit'],
    },
  )
  const ended = once(init, 'close')
  await Promise.race([once(init.stdout, 'data'), ended.then(() => Promise.reject(new Error('the host did not start')))])
  const [mount, pid] = [`/proc/${init.pid}/ns/mnt`, `/proc/${init.pid}/ns/pid_for_children`]
  const inside = (command: string, env: Record<string, string>) => [
    ...[`--mount=${mount}`, `--pid=${pid}`, 'chroot', path.join(folder, 'root'), 'env', '-i', ...ENVIRONMENT],
    ...[...Object.entries(env).map(([name, value]) => `${name}=${value}`), 'sh', '-c', RUN, 'sh', command],
  ]
  return {
    tryRun: (command, env = {}) => runCommand('nsenter', inside(command, env)),
    run: (command, env = {}) => mustRun('nsenter', inside(command, env)),
    async write(file, text) {
      await mustRun(
        'nsenter',
        inside('mkdir -p "$(dirname "$FILE")" && printf %s "$TEXT" >"$FILE"', { FILE: file, TEXT: text }),
      )
    },
    async end() {
      init.stdin.end()
      await ended
      rmSync(folder, { recursive: true, force: true })
    },
  }
}
