/**
 * What a release consists of: archives, the list of what is in them (SBOM), licences and checksums.
 *
 * All times are those of the commit, and names are sorted, so that two builds of one commit are
 * equal byte for byte (reproducible-builds.org, SOURCE_DATE_EPOCH).
 */

import { spawnSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { cpSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { gzipSync } from 'node:zlib'
import { type Bom, licenceList, productionBom } from './bill-of-materials.ts'
import { writeManual } from './manual.ts'
import { ROOT, readLock, writeTree } from './tree.ts'

const SUMS = 'SHA256SUMS'

/** @param folder gets the files of the release; its checksums name every file in it, packages and images too */
export async function writeRelease(folder: string): Promise<void> {
  const { version } = JSON.parse(readFileSync(path.join(ROOT, 'package.json'), 'utf8')) as { version: string }
  requireCommit()
  const epoch = Number(output('git', ['log', '-1', '--format=%ct']))
  mkdirSync(folder, { recursive: true })
  const work = mkdtempSync(path.join(tmpdir(), 'chancery-release-'))
  try {
    const name = `chancery-${version}`
    const top = path.join(work, name)
    await writeTree(top)
    await writeManual(path.join(top, 'share'))
    for (const part of ['deploy', 'docs', 'signer/signer.example.yaml', 'README.md', 'CHANGELOG.md'])
      cpSync(path.join(ROOT, part), path.join(top, part), { recursive: true })
    archive(path.join(folder, `${name}-${process.platform}-${process.arch}.tar.gz`), work, name, epoch)
    archiveSource(path.join(folder, `${name}-source.tar.gz`), name)
    const npmBom = JSON.parse(String(output('npm', ['sbom', '--sbom-format', 'cyclonedx']))) as Bom
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
  if (output('git', ['status', '--porcelain']).length > 0)
    throw new Error('the checkout differs from its commit; commit or stash what "git status" shows')
}

function archive(file: string, above: string, folder: string, epoch: number): void {
  const sameEverywhere = ['--sort=name', `--mtime=@${epoch}`, '--owner=0', '--group=0', '--numeric-owner']
  const tar = ['--create', '--format=gnu', ...sameEverywhere, '--mode=u+rw,go=rX', '-C', above, folder]
  writeFileSync(file, compressed(output('tar', tar)))
}

const archiveSource = (file: string, name: string) =>
  writeFileSync(file, compressed(output('git', ['archive', `--prefix=${name}/`, 'HEAD'])))

/** Node.js writes no time into the header. */
const compressed = (tar: Buffer) => gzipSync(tar, { level: 9 })

function checksums(folder: string): string {
  const names = readdirSync(folder).filter((name) => name !== SUMS)
  return names
    .sort()
    .map(
      (name) =>
        `${createHash('sha256')
          .update(readFileSync(path.join(folder, name)))
          .digest('hex')}  ${name}\n`,
    )
    .join('')
}

/** @throws Error where one does not fit, and where npm's keys cannot be asked for */
export const verifyPackageSignatures = (): string => String(output('npm', ['audit', 'signatures'])).trim()

const IN_ROOT = { cwd: ROOT, maxBuffer: 2 ** 30 }

/** @throws Error with what the program said */
function output(program: string, words: readonly string[]): Buffer {
  const { status, stdout, stderr, error } = spawnSync(program, words, IN_ROOT)
  if (status !== 0) throw new Error(`${program} ${words[0]}: ${error?.message ?? String(stderr).trim()}`)
  return stdout
}
