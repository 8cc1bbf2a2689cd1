/** The packages of others in a release: a CycloneDX list, and their licences in full. */

import { createHash } from 'node:crypto'
import { readdirSync, readFileSync } from 'node:fs'
import path from 'node:path'
import { type Lock, packageName, productionFolders } from './packages.ts'

interface Component {
  'bom-ref': string
  name: string
  version: string
}

/** The part of a CycloneDX document that is read here; the rest passes through. */
export interface Bom {
  serialNumber: string
  metadata: { timestamp: string; component: { name: string } }
  components: Component[]
  dependencies: { ref: string; dependsOn: string[] }[]
}

/**
 * Takes the packages of a production tree from npm's list of all. npm's own `--omit dev` drops
 * some that development packages need, too, such as pg (npm 11.19.1).
 *
 * @param time of the commit; npm's time and random number would make each build another one
 */
export function productionBom(all: Bom, lock: Lock, time: Date): Bom {
  const names = productionFolders(lock).map((folder) => `${packageName(folder)}@${lock.packages[folder]!.version}`)
  const shipped = new Set(names)
  const components = all.components.filter((one) => shipped.has(`${one.name}@${one.version}`))
  const refs = new Set(components.map((one) => one['bom-ref']))
  const component = { ...all.metadata.component, name: 'chancery' }
  const isShipped = (ref: string) => refs.has(ref)
  const dependencies = all.dependencies
    .filter(({ ref }, index) => index === 0 || isShipped(ref))
    .map(({ ref, dependsOn }) => ({ ref, dependsOn: dependsOn.filter(isShipped) }))
  const bom = {
    ...all,
    metadata: { ...all.metadata, component, timestamp: time.toISOString() },
    components,
    dependencies,
  }
  return { ...bom, serialNumber: serialNumberOf(JSON.stringify({ ...bom, serialNumber: '' })) }
}

/** A UUID of version 8 (RFC 9562 §5.8): equal lists have equal numbers. */
function serialNumberOf(text: string): string {
  const hex = createHash('sha256').update(text).digest('hex')
  const groups = [
    hex.slice(0, 8),
    hex.slice(8, 12),
    `8${hex.slice(13, 16)}`,
    `8${hex.slice(17, 20)}`,
    hex.slice(20, 32),
  ]
  return `urn:uuid:${groups.join('-')}`
}

/** @param tree a folder with node_modules */
export function licenceList(tree: string): string {
  const manifests = readdirSync(tree, { recursive: true, encoding: 'utf8' })
    .filter((file) => /node_modules\/(?:@[^/]+\/)?[^/@]+\/package\.json$/.test(file))
    .sort()
  return manifests.map((file) => licenceOf(path.join(tree, path.dirname(file)))).join(`\n${'-'.repeat(80)}\n\n`)
}

function licenceOf(folder: string): string {
  const { name, version, license } = JSON.parse(readFileSync(path.join(folder, 'package.json'), 'utf8')) as Record<
    string,
    string
  >
  const files = readdirSync(folder).filter((file) => /^(?:licen[cs]e|copying|notice)/i.test(file))
  const texts = files.sort().map((file) => readFileSync(path.join(folder, file), 'utf8').trimEnd())
  const whole = texts.length > 0 ? texts.join('\n\n') : '(the package has no file with its licence)'
  return `${name} ${version}\nLicence: ${license ?? 'see below'}\n\n${whole}\n`
}
