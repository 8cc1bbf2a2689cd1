/** When failed logins lock an address or a username. */

import { countedAddress } from './rate-limit.ts'

/** Failures within 300 s lock for 900 s. */
export const LOGIN_LIMIT = { windowSeconds: 300, lockSeconds: 900 }

/** Failures that lock a username. An address with as many is answered slowly. */
export const MOST_OF_USERNAME = 5
/** Behind a tunnel or a local proxy all people have one address. */
export const MOST_OF_ADDRESS = 50
/** Four requests of an address are at work at once, so it makes four guesses in this time. */
export const SLOW_MS = 1_000

/** An address from which a user has signed in within this time is not locked with the username. */
export const KNOWN_ADDRESS_HOURS = 24

/** IPv6 by its /64: a stranger has as many addresses of one network as there are guesses. */
export const addressSubject = (address: string) => `address ${countedAddress(address)}`
export const usernameSubject = (username: string) => `username ${username.toLowerCase()}`
