/** The container image of this checkout, and podman that knows it. It is built once for all tests that need it. */

import path from 'node:path'
import { VERSION } from '../../../src/shared/lib/program-files.ts'
import { requireAll, requireCommand } from '../requirements.ts'
import { mustRun } from '../run-command.ts'
import { type Containers, openContainers } from './containers.ts'
import { debianState, made, productionContent } from './made.ts'

const PACKAGER = path.resolve(import.meta.dirname, '../../../deploy/build/main.js')

export const requireImages = () =>
  requireAll(
    ...(['buildah', 'mmdebstrap', 'strip', 'podman', 'crun', 'g++'] as const).map((name) => requireCommand(name)),
    { skip: process.getuid?.() === 0 ? false : 'containers need root here' },
  )

export interface TestImage {
  archive: string
  name: string
  containers: Containers
  close(): Promise<void>
}

/** The archive, and a storage of podman that holds the image. */
async function makeImage(folder: string): Promise<void> {
  const archive = await buildImageIn(folder)
  const containers = await openContainers({ storage: path.join(folder, 'storage') })
  try {
    await containers.podman('load', '--quiet', `--input=${archive}`)
  } finally {
    await containers.close()
  }
}

export async function openTestImage(): Promise<TestImage> {
  const revision = await mustRun('git', ['-C', import.meta.dirname, 'log', '-1', '--format=%H'])
  const inputs = { content: productionContent(), revision, node: process.version, debian: debianState() }
  const folder = await made('image', inputs, makeImage)
  const containers = await openContainers({ images: path.join(folder, 'storage') })
  return { archive: archiveIn(folder), name: `localhost/chancery:${VERSION}`, containers, close: containers.close }
}

const archiveIn = (folder: string) => path.join(folder, `chancery-${VERSION}.oci.tar`)

/** @returns the archive */
export async function buildImageIn(folder: string): Promise<string> {
  await mustRun(process.execPath, [PACKAGER, 'image', folder])
  return archiveIn(folder)
}
