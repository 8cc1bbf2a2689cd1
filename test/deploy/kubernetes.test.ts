/**
 * deploy/kubernetes, rendered by Debian's kubectl: whether it fits the published schemas and itself. No cluster is here; what the
 * containers of a pod do is tried in kubernetes-pods.test.ts.
 */

import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import path from 'node:path'
import { before, describe, test } from 'node:test'
import { ClusterIssuer } from '@kubernetes-models/cert-manager/cert-manager.io/v1'
import { Bundle } from '@kubernetes-models/cert-manager/trust.cert-manager.io/v1alpha1'
import { ServiceMonitor } from '@kubernetes-models/prometheus-operator/monitoring.coreos.com/v1'
import { StatefulSet } from 'kubernetes-models/apps/v1'
import { CronJob, Job } from 'kubernetes-models/batch/v1'
import { NetworkPolicy } from 'kubernetes-models/networking.k8s.io/v1'
import { PodDisruptionBudget } from 'kubernetes-models/policy/v1'
import { Role, RoleBinding } from 'kubernetes-models/rbac.authorization.k8s.io/v1'
import { ConfigMap, Service, ServiceAccount } from 'kubernetes-models/v1'
import { parse } from 'yaml'
import { makeAuthority } from '../signer/authority.ts'
import { debianRoots } from '../support/debian-root.ts'
import { each } from '../support/each.ts'
import {
  copyManifests,
  debianKubectl,
  KUBERNETES_FOLDER,
  type PodContainer,
  type Resource,
  readManifest,
  render,
} from '../support/kubernetes.ts'
import { pageBlock } from '../support/page-blocks.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'

/** Each checks its values by the schema of its kind. */
const MODELS: Record<string, new (resource: never) => { apiVersion: string; validate(): void }> = {
  Bundle,
  ClusterIssuer,
  ConfigMap,
  CronJob,
  Job,
  NetworkPolicy,
  PodDisruptionBudget,
  Role,
  RoleBinding,
  Service,
  ServiceAccount,
  ServiceMonitor,
  StatefulSet,
}
/** What an operator makes by hand: docs/operations/containers.md. */
const SECRETS = {
  'chancery-database': ['password', 'ca.crt'],
  'chancery-admin': ['token-secret'],
  'chancery-signer-secret': ['signer.secret'],
  'chancery-issuer-key': ['issuer.key'],
}
const PAGE = readFileSync(path.resolve(KUBERNETES_FOLDER, '../../docs/operations/containers.md'), 'utf8')

describe('the manifests for Kubernetes', debianRoots, () => {
  const work = temporaryFolder()
  const rendered: Record<string, Resource[]> = {}
  before(async () => {
    const kubectl = await debianKubectl()
    const root = makeAuthority('P-256', { name: 'Root' })
    const issuer = makeAuthority('P-256', { name: 'Issuer', by: root })
    const folder = path.join(work, 'kubernetes')
    copyManifests(folder, { 'root.pem': root.certificatePem, 'issuer.pem': issuer.certificatePem })
    for (const name of ['base', 'migrate', 'hsm-host', 'monitoring', 'examples'])
      rendered[name] = await render(kubectl, path.join(folder, name))
  })

  const one = (name: string, kind: string, called?: string) => {
    const found = rendered[name]!.find((it) => it.kind === kind && (called ?? it.metadata.name) === it.metadata.name)
    assert.ok(found, `${name} has a ${kind} ${called ?? ''}`)
    return found
  }
  const podOf = (name: string) => one(name, name === 'migrate' ? 'Job' : 'StatefulSet').spec.template
  const containersOf = (name: string): PodContainer[] => {
    const { initContainers = [], containers } = podOf(name).spec
    return [...initContainers, ...containers]
  }

  test('fit the published schemas', () => {
    for (const resource of Object.values(rendered).flat()) {
      const Model = MODELS[resource.kind]!
      const model = new Model(resource as never)
      assert.equal(new Model({} as never).apiVersion, resource.apiVersion, resource.kind)
      assert.doesNotThrow(() => model.validate(), `${resource.kind} ${resource.metadata.name}`)
    }
  })

  for (const name of ['base', 'migrate', 'hsm-host'])
    test(`${name} runs closed containers, as the policy "restricted" wants them`, () => {
      const { securityContext, automountServiceAccountToken, volumes } = podOf(name).spec
      assert.deepEqual([securityContext.runAsNonRoot, securityContext.seccompProfile.type], [true, 'RuntimeDefault'])
      assert.equal(automountServiceAccountToken, false)
      for (const { name: container, securityContext: own, image } of containersOf(name)) {
        assert.equal(image, 'registry.corp.example/chancery:1.0.0')
        const { allowPrivilegeEscalation, readOnlyRootFilesystem, capabilities } = own
        assert.deepEqual(
          { allowPrivilegeEscalation, readOnlyRootFilesystem, capabilities },
          { allowPrivilegeEscalation: false, readOnlyRootFilesystem: true, capabilities: { drop: ['ALL'] } },
          container,
        )
        const user = own.runAsUser ?? securityContext.runAsUser
        assert.equal(user, container.startsWith('signer') ? 10002 : 10001, container)
      }
      const hostPaths = volumes.flatMap(({ hostPath }: { hostPath?: { path: string } }) => hostPath?.path ?? [])
      assert.deepEqual(hostPaths, name === 'hsm-host' ? ['/run/chancery-signer'] : [])
    })

  for (const name of ['base', 'migrate', 'hsm-host'])
    test(`${name} mounts only volumes that there are, and names secrets that the page makes`, () => {
      const { volumes } = podOf(name).spec
      const claims = one(name, name === 'migrate' ? 'Job' : 'StatefulSet').spec.volumeClaimTemplates ?? []
      const known = [...volumes, ...claims.map(({ metadata }: Resource) => metadata)].map(
        (it: { name: string }) => it.name,
      )
      const used = containersOf(name).flatMap(({ volumeMounts }) => volumeMounts.map((mount) => mount.name))
      assert.deepEqual([...new Set(used)].sort(), [...known].sort())
      for (const { configMap } of volumes) if (configMap) one(name, 'ConfigMap', configMap.name)
      const keys = [
        ...volumes.flatMap(({ secret }: { secret?: { secretName: string; items?: { key: string }[] } }) =>
          secret ? (secret.items?.map(({ key }) => [secret.secretName, key]) ?? [[secret.secretName]]) : [],
        ),
        ...containersOf(name).flatMap(({ env = [] }) =>
          env.flatMap(({ valueFrom }) =>
            valueFrom ? [[valueFrom.secretKeyRef.name, valueFrom.secretKeyRef.key]] : [],
          ),
        ),
      ] as [keyof typeof SECRETS, string?][]
      for (const [secret, key] of keys) {
        assert.ok(SECRETS[secret], secret)
        if (key !== undefined) assert.ok(SECRETS[secret].includes(key), `${secret} has ${key}`)
        assert.ok(PAGE.includes(`secret generic ${secret} `), `the page makes ${secret}`)
      }
    })

  test("read the Secret that the clients' page makes for cert-manager", () => {
    const ofPage = parse(pageBlock('docs/clients.md', 'cluster-issuer.yaml'))
    const binding = ({ spec }: Resource) => spec.acme.externalAccountBinding.keySecretRef
    assert.deepEqual(binding(one('examples', 'ClusterIssuer')), binding(ofPage))
  })

  test('give the key to the signer alone, and to the container that copies it', () => {
    const holders = (volume: string) =>
      containersOf('base')
        .filter(({ volumeMounts }) => volumeMounts.some(({ name }) => name === volume))
        .map(({ name }) => name)
    assert.deepEqual(holders('issuer-key'), ['signer-key'])
    assert.deepEqual(holders('key-in-memory'), ['signer-key', 'signer'])
    assert.deepEqual(holders('records'), ['signer'])
    assert.deepEqual(each(containersOf('hsm-host'), 'name'), ['service'])
  })

  test('select the pods by the labels that they have', () => {
    const { labels } = podOf('base').metadata
    const { selector, serviceName } = one('base', 'StatefulSet').spec
    assert.deepEqual(selector.matchLabels, labels)
    assert.ok(one('base', 'Service', serviceName))
    for (const { kind, spec } of rendered['base']!) {
      if (kind === 'Service') assert.deepEqual(spec.selector, labels)
      if (kind === 'PodDisruptionBudget') assert.deepEqual(spec.selector.matchLabels, labels)
    }
    assert.deepEqual(one('base', 'NetworkPolicy', 'chancery').spec.podSelector.matchLabels, labels)
    assert.deepEqual(one('migrate', 'NetworkPolicy').spec.podSelector.matchLabels, podOf('migrate').metadata.labels)
    assert.deepEqual(
      one('monitoring', 'ServiceMonitor').spec.selector.matchLabels,
      one('base', 'Service', 'chancery-pods').metadata.labels,
    )
  })

  test('ask and open the ports that the configuration has', () => {
    const config = parse(readManifest('config/config.yaml'))
    const service = containersOf('base').find(({ name }) => name === 'service')!
    const ports = Object.fromEntries(service.ports!.map(({ name, containerPort }) => [name, containerPort]))
    assert.deepEqual(ports, { https: config.server.port, http: config.crl.http_port })
    const targets = rendered['base']!.filter(({ kind }) => kind === 'Service').flatMap(({ spec }) => spec.ports)
    for (const { targetPort } of targets) assert.ok(targetPort in ports, targetPort)
    const { terminationGracePeriodSeconds } = podOf('base').spec
    assert.ok(terminationGracePeriodSeconds > config.server.drain_seconds + 2 * 30 + 10)
    const { path: socket } = { path: parse(readManifest('config/signer.yaml')).socket }
    assert.equal(config.ca.signer.socket, socket)
    const signer = containersOf('base').find(({ name }) => name === 'signer')!
    assert.deepEqual([signer.restartPolicy, signer.startupProbe?.exec?.command], ['Always', ['healthcheck', socket]])
  })

  test('restart the pods when a configuration changes, and give the migration the same one', () => {
    const nameIn = (name: string) =>
      podOf(name).spec.volumes.find((it: { name: string }) => it.name === 'config').configMap.name
    assert.match(nameIn('base'), /^chancery-config-[a-z0-9]{10}$/)
    assert.equal(nameIn('migrate'), nameIn('base'))
  })
})
