/** The tasks of the pool's threads: each takes one job and returns one answer. */

export { checkCaa } from './caa.ts'
export { checkMailDomains } from './mail-domain.ts'
export { default } from './validate.ts'
