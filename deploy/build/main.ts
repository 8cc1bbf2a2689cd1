#!/usr/bin/env node
/** `npm run package`: what a release consists of. Needs a built checkout, which the npm script sees to. */

import path from 'node:path'
import { command, isGiven, option, runProgram } from '../../src/shared/command-line.ts'

const isTreeOf = (value: string) => {
  if (value !== 'all' && value !== 'signer') throw new Error('takes all or signer')
  return value
}

const isNodeMajor = (value: string) => {
  if (value !== '20' && value !== '24') throw new Error('takes 20 or 24')
  return value
}
const isRevision = (value: string) => {
  if (!/^[1-9]\d{0,3}$/.test(value)) throw new Error('takes a whole number from 1 to 9999')
  return Number(value)
}

const TREE = command({
  usage: 'tree <folder>',
  about: 'Write the programs with the packages that they load on this platform',
  options: { only: option('all, or signer for a host that runs nothing else', isTreeOf, 'all') },
  examples: ['tree /opt/chancery', 'tree --only signer /opt/chancery-signer'],
  async run({ only }, [folder = '']) {
    const { writeTree } = await import('./tree.ts')
    await writeTree(path.resolve(folder), only === 'signer' ? only : undefined)
    return 0
  },
})

const MANUAL = command({
  usage: 'manual <folder>',
  about: 'Write manual pages, and completions for bash, zsh and fish, from the tables of commands',
  examples: ['manual build/manual'],
  async run(_, [folder = '']) {
    await (await import('./manual.ts')).writeManual(path.resolve(folder))
    return 0
  },
})

const RELEASE = command({
  usage: 'release <folder>',
  about: [
    'Write what is published of this commit',
    '',
    'Archives of the source and for this platform, the packages in it (CycloneDX), their licences, and SHA256SUMS of all',
    'files in the folder. Two builds of one commit are equal byte for byte.',
  ],
  options: {
    signatures: isGiven('Ask npm for its signatures of the packages, too, and end with 1 where one does not fit'),
  },
  examples: ['release build/release', 'release build/release --signatures'],
  async run({ signatures }, [folder = '']) {
    const { verifyPackageSignatures, writeRelease } = await import('./release.ts')
    if (signatures) console.log(verifyPackageSignatures())
    await writeRelease(path.resolve(folder))
    return 0
  },
})

const DEB = command({
  usage: 'deb <folder>',
  about: ['Build the Debian packages chancery and chancery-signer', '', 'Needs debhelper and dpkg-dev of Debian.'],
  options: { revision: option('Tells builds of one release apart: the 1 of 1.0.0-1', isRevision, 1) },
  examples: ['deb build/packages', 'deb --revision 2 build/packages'],
  async run({ revision }, [folder = '']) {
    const made = await (await import('./deb.ts')).buildPrograms(path.resolve(folder), revision)
    console.log(made.join('\n'))
    return 0
  },
})

const IMAGE = command({
  usage: 'image <folder>',
  about: [
    'Write the container image as an OCI archive, chancery-VERSION.oci.tar',
    '',
    "Needs buildah, mmdebstrap and binutils of Debian, Debian's mirror and the npm registry. As root.",
  ],
  examples: ['image build/release'],
  async run(_, [folder = '']) {
    const { buildImage, factsOfCommit } = await import('./image.ts')
    console.log(await buildImage(path.resolve(folder), factsOfCommit()))
    return 0
  },
})

const DEB_NODEJS = command({
  usage: 'deb-nodejs <folder>',
  about: [
    'Build the Debian package chancery-nodejs, with a Node.js from the npm registry',
    '',
    'Needs debhelper and dpkg-dev of Debian.',
  ],
  options: { node: option('20 for Debian 12, 24 for newer ones', isNodeMajor, '24') },
  examples: ['deb-nodejs build/packages', 'deb-nodejs --node 20 build/packages'],
  async run({ node }, [folder = '']) {
    const [{ buildNode }, { NODE_RELEASES }] = await Promise.all([import('./deb.ts'), import('./node-release.ts')])
    const made = await buildNode(path.resolve(folder), NODE_RELEASES[node])
    console.log(made.join('\n'))
    return 0
  },
})

await runProgram(
  {
    name: 'package',
    version: '',
    about: [
      'Makes what is installed: the tree of files for production, manual pages and completions, Debian packages, the image,',
      'a release.',
    ],
    commands: [TREE, MANUAL, DEB, DEB_NODEJS, IMAGE, RELEASE],
  },
  process.argv.slice(2),
)
