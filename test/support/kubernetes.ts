/** Renders deploy/kubernetes, and runs the containers of its pods by podman. */

import { chmodSync, chownSync, cpSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { parseAllDocuments } from 'yaml'
import type { ContainerPlan, Mount } from './containers.ts'
import { debianBase } from './debian-root.ts'
import { mustRun } from './run-command.ts'

export const KUBERNETES_FOLDER = path.resolve(import.meta.dirname, '../../../deploy/kubernetes')

export interface Resource {
  apiVersion: string
  kind: string
  metadata: { name: string; namespace?: string; labels?: Record<string, string> }
  data?: Record<string, string>
  // biome-ignore lint/suspicious/noExplicitAny: every kind has another; the schemas say whether it fits
  spec?: any
}

export interface PodContainer {
  name: string
  image: string
  command: string[]
  restartPolicy?: string
  env?: { name: string; value?: string; valueFrom?: { secretKeyRef: { name: string; key: string } } }[]
  ports?: { name: string; containerPort: number }[]
  securityContext: { runAsUser?: number; runAsGroup?: number; [key: string]: unknown }
  volumeMounts: { name: string; mountPath: string; subPath?: string; readOnly?: boolean }[]
  startupProbe?: { exec?: { command: string[] } }
}

/** kubectl of Debian 13, because the one of Debian 12 does not know components. */
export const debianKubectl = async () => path.join(await debianBase('trixie'), 'usr/bin/kubectl')

/** A copy of deploy/kubernetes with the certificates that the operator puts there. */
export function copyManifests(to: string, certificates: Record<string, string>): void {
  cpSync(KUBERNETES_FOLDER, to, { recursive: true })
  for (const [name, pem] of Object.entries(certificates)) writeFileSync(path.join(to, 'config', name), pem)
}

export async function render(kubectl: string, folder: string): Promise<Resource[]> {
  const text = await mustRun(kubectl, ['kustomize', folder])
  return parseAllDocuments(text).map((document) => document.toJS() as Resource)
}

/** Secret → key → content. */
export type Secrets = Record<string, Record<string, string>>

interface PodOptions {
  folder: string
  image: string
  secrets: Secrets
}

/** The volumes of one pod as the kubelet makes them for its fsGroup, and a plan for each of its containers. */
export function podPlans(resources: readonly Resource[], template: Resource, options: PodOptions) {
  const { volumeClaimTemplates = [], template: pod } = template.spec
  const { fsGroup } = pod.spec.securityContext
  const folderOf = (name: string) => path.join(options.folder, name)
  for (const { name, configMap, secret } of pod.spec.volumes) {
    const files = configMap
      ? resources.find(({ kind, metadata }) => kind === 'ConfigMap' && metadata.name === configMap.name)?.data
      : secret && options.secrets[secret.secretName]
    makeVolume(folderOf(name), files, secret ? (secret.defaultMode ?? 0o644) | 0o440 : 0o644, fsGroup)
  }
  for (const { metadata } of volumeClaimTemplates) makeVolume(folderOf(metadata.name), undefined, 0, fsGroup)
  return Object.fromEntries(
    [...(pod.spec.initContainers ?? []), ...pod.spec.containers].map((container: PodContainer) => [
      container.name,
      planOf(container, pod.spec.securityContext, folderOf, options),
    ]),
  ) as Record<string, ContainerPlan>
}

/** Makes a Secret or a ConfigMap of files. Without files, a pod writes to the volume, and its group may. */
function makeVolume(folder: string, files: Record<string, string> | undefined, mode: number, group: number): void {
  mkdirSync(folder, { recursive: true })
  chownSync(folder, 0, group)
  chmodSync(folder, files ? 0o755 : 0o2777)
  for (const [name, content] of Object.entries(files ?? {})) {
    const file = path.join(folder, name)
    writeFileSync(file, content)
    chownSync(file, 0, group)
    chmodSync(file, mode)
  }
}

function planOf(
  { command, env = [], securityContext, volumeMounts }: PodContainer,
  pod: PodContainer['securityContext'] & { fsGroup: number },
  folderOf: (volume: string) => string,
  { image, secrets }: PodOptions,
): ContainerPlan {
  const { runAsUser, runAsGroup } = { ...pod, ...securityContext }
  const mounts = volumeMounts.map(
    ({ name, mountPath, subPath = '', readOnly }): Mount => ({
      from: path.join(folderOf(name), subPath),
      to: mountPath,
      isWritable: !readOnly,
    }),
  )
  const contentOf = ({ value, valueFrom }: (typeof env)[number]) =>
    value ?? secrets[valueFrom!.secretKeyRef.name]![valueFrom!.secretKeyRef.key]!
  return {
    image,
    command,
    user: `${runAsUser}:${runAsGroup}`,
    groups: [pod.fsGroup],
    env: Object.fromEntries(env.map((one) => [one.name, contentOf(one)])),
    mounts,
    network: 'host',
  }
}

export const readManifest = (name: string): string => readFileSync(path.join(KUBERNETES_FOLDER, name), 'utf8')
