/**
 * The files of a release: archives, the list of the packages in them (SBOM), licences and checksums.
 *
 * All times are the commit's, and names are sorted, so that two builds of one commit are
 * equal byte for byte (reproducible-builds.org, SOURCE_DATE_EPOCH).
 */

import { createHash } from 'node:crypto'
import { cpSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { gzipSync } from 'node:zlib'
import { VERSION } from '../../src/shared/lib/program-files.ts'
import { writeManual } from './manual.ts'
import { type Lock, packageName, productionFolders } from './packages.ts'
import { bytesOf, reproducible, run } from './run.ts'
import { ROOT, readLock, writeTree } from './tree.ts'

const SUMS = 'SHA256SUMS'

/** @param folder gets the files of the release; its checksums name every file in it, packages and images too */
export async function writeRelease(folder: string): Promise<void> {
  requireCommit()
  const epoch = Number(run('git', ['log', '-1', '--format=%ct'], ROOT))
  mkdirSync(folder, { recursive: true })
  const work = mkdtempSync(path.join(tmpdir(), 'chancery-release-'))
  try {
    const name = `chancery-${VERSION}`
    const top = path.join(work, name)
    await writeTree(top)
    await writeManual(path.join(top, 'share'))
    for (const part of ['deploy', 'docs', 'signer/signer.example.yaml', 'README.md', 'CHANGELOG.md'])
      cpSync(path.join(ROOT, part), path.join(top, part), { recursive: true })
    archive(path.join(folder, `${name}-${process.platform}-${process.arch}.tar.gz`), work, name, epoch)
    archiveSource(path.join(folder, `${name}-source.tar.gz`), name)
    const npmBom = JSON.parse(run('npm', ['sbom', '--sbom-format', 'cyclonedx'], ROOT)) as Bom
    const bom = productionBom(npmBom, readLock(), new Date(1000 * epoch))
    writeFileSync(path.join(folder, `${name}.cdx.json`), `${JSON.stringify(bom, null, 2)}\n`)
    writeFileSync(path.join(folder, `${name}-licences.txt`), licenceList(top))
  } finally {
    rmSync(work, { recursive: true })
  }
  writeFileSync(path.join(folder, SUMS), checksums(folder))
}

/** An archive of files that no commit has cannot be made again. */
function requireCommit(): void {
  if (run('git', ['status', '--porcelain'], ROOT) !== '')
    throw new Error('the checkout differs from its commit; commit or stash what "git status" shows')
}

function archive(file: string, above: string, folder: string, epoch: number): void {
  writeFileSync(file, compressed(bytesOf('tar', [...reproducible(epoch), folder], above)))
}

const archiveSource = (file: string, name: string) =>
  writeFileSync(file, compressed(bytesOf('git', ['archive', `--prefix=${name}/`, 'HEAD'], ROOT)))

/** Node.js writes no time into the header. */
const compressed = (tar: Buffer) => gzipSync(tar, { level: 9 })

function checksums(folder: string): string {
  const names = readdirSync(folder).filter((name) => name !== SUMS)
  const digest = (name: string) =>
    createHash('sha256')
      .update(readFileSync(path.join(folder, name)))
      .digest('hex')
  const lines = names.sort().map((name) => `${digest(name)}  ${name}\n`)
  return lines.join('')
}

/** @throws Error where one does not fit, and where npm's keys cannot be asked for */
export const verifyPackageSignatures = (): string => run('npm', ['audit', 'signatures'], ROOT).trim()

interface Component {
  'bom-ref': string
  name: string
  version: string
}

/** The part of a CycloneDX document that is read here; the rest passes through. */
interface Bom {
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
function productionBom(all: Bom, lock: Lock, time: Date): Bom {
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
function licenceList(tree: string): string {
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
