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
import { type Bom, licenceList, productionBom } from './bill-of-materials.ts'
import { writeManual } from './manual.ts'
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
