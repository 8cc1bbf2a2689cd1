/**
 * The container image: libraries of Debian 13, Node.js, and the production tree, without a shell or a package manager.
 * Lists of the packages stay, for scanners.
 *
 * buildah makes an OCI archive of them without a daemon. All times are the commit's, so that two builds with the same
 * packages of Debian are equal byte for byte.
 */

import {
  chmodSync,
  chownSync,
  cpSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { PATHS, PLACES } from '../../src/installation/places.ts'
import { VERSION } from '../../src/shared/lib/program-files.ts'
import { fetchNode, NODE_RELEASES } from './node-release.ts'
import { reproducible, run } from './run.ts'
import { ROOT, writeTree } from './tree.ts'

const CONFIGURATION = {
  user: '10001',
  workingdir: PATHS.folder,
  cmd: JSON.stringify(['chancery', '-c', PATHS.config, 'serve']),
  port: '8443',
  'stop-signal': 'SIGTERM',
  env: 'PATH=/usr/local/bin:/usr/bin',
  'created-by': 'npm run package -- image',
}

interface ImageFacts {
  revision: string
  /** Seconds since 1970. */
  epoch: number
}

/** @returns the file in the folder; one of that name is replaced */
export async function buildImage(folder: string, { revision, epoch }: ImageFacts): Promise<string> {
  if (process.arch !== 'x64') throw new Error(`images are made on x64 only, not on ${process.arch}`)
  // Folders of the image are readable for its users, whatever the builder's are.
  process.umask(0o022)
  const work = mkdtempSync(path.join(tmpdir(), 'chancery-image-'))
  const storage = ['--root', path.join(work, 'storage'), '--runroot', path.join(work, 'run'), '--storage-driver', 'vfs']
  const buildah = (...words: string[]) => run('buildah', [...storage, ...words], work).trim()
  try {
    const root = path.join(work, 'root')
    await writeImageRoot(root, work)
    const container = buildah('from', 'scratch')
    const mounted = buildah('mount', container)
    cpSync(root, mounted, { recursive: true, verbatimSymlinks: true })
    for (const [folder, [uid, gid]] of Object.entries(FOLDERS)) chownSync(path.join(mounted, folder), uid, gid)
    buildah('umount', container)
    const labels = Object.entries(labelsOf(revision, epoch)).map(([name, value]) => `--label=${name}=${value}`)
    const settings = Object.entries(CONFIGURATION).map(([name, value]) => `--${name}=${value}`)
    buildah('config', ...settings, ...labels, container)
    const layout = path.join(work, 'layout')
    const commit = ['--quiet', '--format=oci', '--disable-compression=false', '--identity-label=false']
    buildah('commit', ...commit, `--timestamp=${epoch}`, container, `oci:${layout}:chancery:${VERSION}`)
    buildah('rm', container)
    mkdirSync(folder, { recursive: true })
    const file = path.join(folder, `chancery-${VERSION}.oci.tar`)
    // skopeo and podman read a plain tar of the layout; theirs has the time of the build in it.
    run('tar', [...reproducible(epoch), `--file=${file}`, '.'], layout)
    return file
  } finally {
    rmSync(work, { recursive: true, force: true })
  }
}

const labelsOf = (revision: string, epoch: number) => ({
  'org.opencontainers.image.title': 'Chancery',
  'org.opencontainers.image.description': 'ACME certificate authority server with its signer',
  'org.opencontainers.image.licenses': 'Apache-2.0',
  'org.opencontainers.image.version': VERSION,
  'org.opencontainers.image.revision': revision,
  'org.opencontainers.image.created': new Date(1000 * epoch).toISOString(),
})

/** @throws Error without git, unless SOURCE_DATE_EPOCH is set */
export function factsOfCommit(): ImageFacts {
  const given = process.env.SOURCE_DATE_EPOCH
  if (given !== undefined) return { revision: process.env.SOURCE_REVISION ?? '', epoch: Number(given) }
  const [revision = '', epoch] = run('git', ['log', '-1', '--format=%H %ct'], ROOT).trim().split(' ')
  return { revision, epoch: Number(epoch) }
}

/** The first has the name of the release; libssl is for PKCS #11 libraries of vendors. */
const DEBIAN_PACKAGES = ['base-files', 'ca-certificates', 'libc6', 'libssl3t64', 'libstdc++6']
/** Only the files of these packages, and of packages that they depend on, stay. */
const KEPT_PACKAGES =
  /^(?:base-files|ca-certificates|gcc-\d+-base|libc6|libgcc-s1|libssl3t64|libstdc\+\+6|libzstd1|util-linux|zlib1g)$/
/** Util-linux for flock(1), which links to libc only; what else it depends on is left out. */
const ADD_FLOCK = `--extract-hook=cd "$1/var/cache/apt/archives" && export APT_CONFIG="$MMDEBSTRAP_APT_CONFIG" &&
  apt-get -qq -o APT::Sandbox::User=root download util-linux && dpkg-deb --extract util-linux_* "$1"`
/** Debuggers and profilers load the others. */
const LIBRARIES = /^(?!lib(?:c_malloc_debug|memusage|pcprofile|thread_db)\.).*\.so(?:\.|$)/
/** Only the library for this number of Node.js' ABI is loaded. */
const OTHER_ABI = /^uws_.*_(?!137\.)\d+\.node$/

const PROGRAMS = { chancery: 'dist/src/cli/main.js', 'chancery-signer': 'dist/signer/start.cjs' }
const SERVICE = 10001
const SIGNER = 10002
const below = (file: string) => file.slice(1)

/** Folder → its owner and mode. Volumes are mounted there, and the folder of the socket has a place of its own in an image. */
export const FOLDERS: Record<string, [uid: number, gid: number, mode: number]> = {
  [below(PATHS.folder)]: [0, 0, PLACES.folder.mode],
  'run/chancery': [SIGNER, SIGNER, PLACES.signerRun.mode],
  tmp: [0, 0, 0o1777],
  [below(PATHS.serviceState)]: [SERVICE, SERVICE, PLACES.serviceState.mode],
  [below(PATHS.signerState)]: [SIGNER, SIGNER, PLACES.signerState.mode],
}

const ACCOUNTS: Record<string, string> = {
  'etc/passwd': `root:x:0:0::/root:/usr/sbin/nologin
chancery:x:${SERVICE}:${SERVICE}::${PATHS.serviceState}:/usr/sbin/nologin
chancery-signer:x:${SIGNER}:${SIGNER}::${PATHS.signerState}:/usr/sbin/nologin
`,
  'etc/group': `root:x:0:
chancery:x:${SERVICE}:
chancery-signer:x:${SIGNER}:chancery
`,
  'etc/nsswitch.conf': 'passwd: files\ngroup: files\nhosts: files dns\n',
}

/**
 * @param root is made; its files are the builder's, but for the folders in FOLDERS
 * @param work an empty folder for what is thrown away
 */
async function writeImageRoot(root: string, work: string): Promise<void> {
  mkdirSync(root, { recursive: true })
  copyDebian(root, path.join(work, 'debian'))
  writeNode(root, work)
  await writePrograms(path.join(root, 'opt/chancery'), root)
  for (const [file, text] of Object.entries(ACCOUNTS)) writeFileSync(path.join(root, file), text)
  for (const [folder, [, , mode]] of Object.entries(FOLDERS)) {
    mkdirSync(path.join(root, folder), { recursive: true })
    chmodSync(path.join(root, folder), mode)
  }
}

/** mmdebstrap checks Debian's signatures; no script of a package runs. */
function copyDebian(root: string, debian: string): void {
  const keepsPackages = '--skip=cleanup/apt/cache'
  const include = `--include=${DEBIAN_PACKAGES.join(',')}`
  run('mmdebstrap', ['--quiet', '--variant=extract', keepsPackages, include, ADD_FLOCK, 'trixie', debian], ROOT)
  const [triplet = ''] = readdirSync(path.join(debian, 'usr/lib')).filter((name) => name.endsWith('-linux-gnu'))
  const libraries = path.join('usr/lib', triplet)
  for (const name of readdirSync(path.join(debian, libraries)))
    if (LIBRARIES.test(name) || name === 'ossl-modules') copy(debian, root, path.join(libraries, name))
  for (const name of ['usr/lib64', 'usr/lib/os-release', 'etc/os-release', 'etc/debian_version', 'etc/ssl/openssl.cnf'])
    copy(debian, root, name)
  copy(debian, root, 'usr/bin/flock')
  for (const name of ['lib', 'lib64']) symlinkSync(`usr/${name}`, path.join(root, name))
  writeAuthorities(debian, root)
  listPackages(debian, root)
}

/** update-ca-certificates would do this, and it is a shell script. */
function writeAuthorities(debian: string, root: string): void {
  const folder = path.join(debian, 'usr/share/ca-certificates/mozilla')
  const names = readdirSync(folder).sort()
  mkdirSync(path.join(root, 'etc/ssl/certs'), { recursive: true })
  writeFileSync(
    path.join(root, 'etc/ssl/certs/ca-certificates.crt'),
    names.map((name) => readFileSync(path.join(folder, name), 'utf8')).join(''),
  )
}

/** Scanners look there in images without a package manager. The licences come along. */
function listPackages(debian: string, root: string): void {
  const archives = path.join(debian, 'var/cache/apt/archives')
  const status = path.join(root, 'var/lib/dpkg/status.d')
  mkdirSync(status, { recursive: true })
  for (const file of readdirSync(archives).sort()) {
    const name = file.replace(/_.*/, '')
    if (!file.endsWith('.deb') || !KEPT_PACKAGES.test(name)) continue
    writeFileSync(path.join(status, name), run('dpkg-deb', ['--field', path.join(archives, file)], ROOT))
    // The text for gcc's libraries is in gcc-*-base.
    if (!/^lib(?:gcc|stdc)/.test(name)) copy(debian, root, path.join('usr/share/doc', name, 'copyright'))
  }
}

function writeNode(root: string, work: string): void {
  const unpacked = path.join(work, 'node')
  mkdirSync(unpacked)
  fetchNode(NODE_RELEASES[24], unpacked)
  run('strip', ['node'], unpacked)
  copyTo(path.join(unpacked, 'node'), path.join(root, 'usr/bin/node'))
  copyTo(path.join(unpacked, 'LICENSE'), path.join(root, 'usr/share/doc/nodejs/copyright'))
}

async function writePrograms(tree: string, root: string): Promise<void> {
  await writeTree(tree)
  const http = path.join(tree, 'node_modules/uWebSockets.js')
  for (const name of readdirSync(http)) if (OTHER_ABI.test(name)) rmSync(path.join(http, name))
  mkdirSync(path.join(root, 'usr/local/bin'), { recursive: true })
  for (const [name, program] of Object.entries(PROGRAMS)) {
    const file = path.join(tree, program)
    // There is no env(1).
    writeFileSync(file, readFileSync(file, 'utf8').replace(/^#!.*/, '#!/usr/bin/node'))
    chmodSync(file, 0o755)
    symlinkSync(`/opt/chancery/${program}`, path.join(root, 'usr/local/bin', name))
  }
  copyTo(path.join(ROOT, 'deploy/image/healthcheck.mjs'), path.join(tree, 'healthcheck.mjs'))
  chmodSync(path.join(tree, 'healthcheck.mjs'), 0o755)
  symlinkSync('/opt/chancery/healthcheck.mjs', path.join(root, 'usr/local/bin/healthcheck'))
}

const copy = (from: string, to: string, name: string) => copyTo(path.join(from, name), path.join(to, name))

function copyTo(from: string, to: string): void {
  mkdirSync(path.dirname(to), { recursive: true })
  cpSync(from, to, { recursive: true, verbatimSymlinks: true })
}
