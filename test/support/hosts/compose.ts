/** Services of deploy/compose as podman runs them here: no Docker daemon, no image of PostgreSQL, the machine's network. */

import { chmodSync, chownSync, mkdirSync, readFileSync } from 'node:fs'
import path from 'node:path'
import { parse } from 'yaml'
import type { ContainerPlan, Mount } from './containers.ts'

interface ComposeService {
  image?: string
  user?: string
  command?: string[]
  read_only?: boolean
  cap_drop?: string[]
  security_opt?: string[]
  network_mode?: string
  networks?: string[]
  group_add?: string[]
  ports?: string[]
  volumes?: string[]
  secrets?: string[]
  env_file?: string
  healthcheck?: { test: string[] }
  depends_on?: Record<string, { condition: string }>
}

interface ComposeFile {
  services: Record<string, ComposeService>
  volumes: Record<string, unknown>
  networks: Record<string, unknown>
  secrets: Record<string, { file: string }>
}

export const COMPOSE_FOLDER = path.resolve(import.meta.dirname, '../../../../deploy/compose')

export const readCompose = (folder = COMPOSE_FOLDER): ComposeFile =>
  parse(readFileSync(path.join(folder, 'compose.yaml'), 'utf8'), { merge: true }) as ComposeFile

/** The folder that stands for a named volume, with the owner that an empty one takes from the image. */
export function makeVolume(folder: string, name: string, [uid, gid, mode]: readonly [number, number, number]): void {
  const volume = volumeFolder(folder, name)
  mkdirSync(volume, { recursive: true })
  chownSync(volume, uid, gid)
  chmodSync(volume, mode)
}

const volumeFolder = (folder: string, name: string) => path.join(folder, 'volumes', name)

/** @param folder a copy of deploy/compose with its secrets */
export function planOf(folder: string, name: string, image: string): ContainerPlan {
  const file = readCompose(folder)
  const service = file.services[name]!
  return {
    image,
    user: service.user,
    command: service.command ?? [],
    groups: service.group_add ?? [],
    env: service.env_file === undefined ? {} : variablesOf(path.join(folder, service.env_file)),
    mounts: [
      ...(service.volumes ?? []).map((volume) => mountOf(folder, volume)),
      ...(service.secrets ?? []).map((secret) => ({
        from: path.join(folder, file.secrets[secret]!.file),
        to: `/run/secrets/${secret}`,
      })),
    ],
    network: service.network_mode === 'none' ? 'none' : 'host',
  }
}

function mountOf(folder: string, volume: string): Mount {
  const [from = '', to = '', mode] = volume.split(':')
  const isFile = from.startsWith('./')
  return { from: isFile ? path.join(folder, from) : volumeFolder(folder, from), to, isWritable: mode !== 'ro' }
}

const variablesOf = (file: string): Record<string, string> =>
  Object.fromEntries(
    readFileSync(file, 'utf8')
      .trim()
      .split('\n')
      .map((line) => [line.slice(0, line.indexOf('=')), line.slice(line.indexOf('=') + 1)]),
  )
