/**
 * The container image: an OCI archive, made by buildah without a daemon. All times are the commit's, so that two builds
 * with the same packages of Debian are equal byte for byte.
 */

import { chownSync, cpSync, mkdirSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { PATHS } from '../../src/installation/places.ts'
import { VERSION } from '../../src/shared/lib/program-files.ts'
import { FOLDERS, writeImageRoot } from './image-root.ts'
import { reproducible, run } from './run.ts'
import { ROOT } from './tree.ts'

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
