/** The container image of this checkout, built for a test. */

import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { VERSION } from '../../src/shared/lib/program-files.ts'
import { type Containers, openContainers } from './containers.ts'
import { requireAll, requireCommand } from './requirements.ts'
import { mustRun } from './run-command.ts'
import { noted } from './used-parts.ts'

/** Debian's mirror and npm's registry may be slow. */
const BUILD_MS = 900_000
const PACKAGER = path.resolve(import.meta.dirname, '../../deploy/build/main.js')

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

export async function buildTestImage(): Promise<TestImage> {
  const folder = mkdtempSync(path.join(tmpdir(), 'chancery-test-image-'))
  const archive = await buildImageIn(folder)
  const containers = await openContainers()
  const loaded = await containers.podman('load', '--quiet', `--input=${archive}`)
  return {
    archive,
    name: loaded.trim().replace('Loaded image: ', ''),
    containers,
    async close() {
      await containers.close()
      rmSync(folder, { recursive: true, force: true })
    },
  }
}

/** @returns the archive */
export async function buildImageIn(folder: string): Promise<string> {
  await noted('image', () => mustRun(process.execPath, [PACKAGER, 'image', folder], { timeoutMs: BUILD_MS }))
  return path.join(folder, `chancery-${VERSION}.oci.tar`)
}
