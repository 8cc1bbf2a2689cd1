#!/usr/bin/env node
/**
 * Starts chancery-signer. It sets the size of libuv's thread pool first, because Node 20 reads ES
 * modules through that pool.
 *
 * Sessions of a token and slow file keys sign in pool threads. 40 threads suffice for 32 sessions
 * and the audit chain; an idle thread costs a few kilobytes.
 */

process.env['UV_THREADPOOL_SIZE'] ??= '40'
void import('./main.js')
