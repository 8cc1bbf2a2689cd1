/** The Debian packages `chancery` and `chancery-signer`, and the Node.js that they prefer to the system's. */

import { cpSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { VERSION } from '../../src/shared/lib/program-files.ts'
import { writeManual } from './manual.ts'
import { fetchNode, type NodeRelease } from './node-release.ts'
import { filledIn } from './places.ts'
import { run } from './run.ts'
import { ROOT, writeTree } from './tree.ts'

const DEPLOY = path.join(ROOT, 'deploy')

/** Debian orders versions by `~`: 1.0.0-rc.1 comes before 1.0.0. */
function debianVersion(version: string, revision: number): string {
  return `${version.replace('-', '~')}-${revision}`
}

/**
 * @param folder gets the packages
 * @param revision tells builds of one release apart
 * @returns the names of the files
 */
export async function buildPrograms(folder: string, revision: number): Promise<string[]> {
  const source = { name: 'chancery', version: debianVersion(VERSION, revision), debian: 'programs' }
  return buildSource(source, folder, async (at) => {
    await writeTree(path.join(at, 'tree'))
    await writeTree(path.join(at, 'signer-tree'), 'signer')
    await writeManual(path.join(at, 'manual'))
    cpSync(DEPLOY, path.join(at, 'deploy'), { recursive: true })
    const isRead = (file: string) => statSync(file).isDirectory() || file.endsWith('.md')
    cpSync(path.join(ROOT, 'docs'), path.join(at, 'docs'), { recursive: true, filter: isRead })
    cpSync(path.join(ROOT, 'signer/signer.example.yaml'), path.join(at, 'signer.example.yaml'))
    for (const name of ['chancery', 'chancery-signer']) {
      cpSync(path.join(DEPLOY, `systemd/${name}.service`), path.join(at, `debian/${name}.service`))
      // Each package works without the other, so both bring the users and the rights of both.
      cpSync(path.join(DEPLOY, 'sysusers.d/chancery.conf'), path.join(at, `debian/${name}.sysusers`))
      cpSync(path.join(DEPLOY, 'tmpfiles.d/chancery.conf'), path.join(at, `debian/${name}.tmpfiles`))
    }
  })
}

export async function buildNode(folder: string, release: NodeRelease): Promise<string[]> {
  const source = { name: 'chancery-nodejs', version: debianVersion(release.version, 1), debian: 'nodejs' }
  return buildSource(source, folder, async (at) => {
    fetchNode(release, at)
    writeFileSync(path.join(at, 'glibc'), release.glibc)
  })
}

interface Source {
  name: string
  version: string
  /** The folder below deploy/debian. */
  debian: string
}

async function buildSource(
  { name, version, debian }: Source,
  folder: string,
  write: (at: string) => Promise<void>,
): Promise<string[]> {
  const temporary = mkdtempSync(path.join(tmpdir(), 'chancery-deb-'))
  try {
    const at = path.join(temporary, 'source')
    cpSync(path.join(DEPLOY, 'debian', debian), path.join(at, 'debian'), { recursive: true })
    fillIn(path.join(at, 'debian'))
    writeFileSync(path.join(at, 'debian/changelog'), changelog(name, version))
    await write(at)
    run('dpkg-buildpackage', ['--build=binary', '--no-sign'], at)
    mkdirSync(folder, { recursive: true })
    const made = readdirSync(temporary).filter((file) => file.endsWith('.deb'))
    for (const file of made) cpSync(path.join(temporary, file), path.join(folder, file))
    return made.sort()
  } finally {
    rmSync(temporary, { recursive: true, force: true })
  }
}

/** The scripts and lists of a package name places of an installation, such as `@config@`. */
function fillIn(folder: string): void {
  for (const name of readdirSync(folder).filter((one) => /\.(?:(?:pre|post)(?:inst|rm)|dirs)$/.test(one))) {
    const file = path.join(folder, name)
    writeFileSync(file, filledIn(readFileSync(file, 'utf8')))
  }
}

/** The newest commit gives the date. debhelper takes the times of all files from it, so two builds are alike. */
function changelog(name: string, version: string): string {
  const date = run('git', ['log', '-1', '--format=%cD'], ROOT).trim()
  return `${name} (${version}) stable; urgency=medium

  * See CHANGELOG.md of this release.

 -- Chancery maintainers <maintainers@chancery.invalid>  ${date}
`
}
