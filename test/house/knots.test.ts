import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { commentsOf, knotOf } from './comments.ts'

const textIn = (source: string) => commentsOf(source).map(({ line, paragraphs }) => [line, ...paragraphs])

describe('the comments of a file', () => {
  test('are blocks, neighbouring lines, and ends of lines', () => {
    const source = [
      '/**',
      ' * Reads a file.',
      ' * It may be large.',
      ' *',
      ' * @returns its text',
      ' */',
      'const url = "https://example.com" // a text',
      '  // Two lines',
      '  // of one comment.',
      '  {/* In a page. */}',
    ]
    assert.deepEqual(textIn(source.join('\n')), [
      [1, 'Reads a file. It may be large.', '@returns its text'],
      [7, 'a text'],
      [8, 'Two lines of one comment.'],
      [10, 'In a page.'],
    ])
  })

  test('have a paragraph for each item of a list', () => {
    assert.deepEqual(textIn('/**\n * Steps:\n * 1. one\n * 2. two\n *    and more\n */'), [
      [1, 'Steps:', '1. one', '2. two and more'],
    ])
  })
})

describe('a comment is knotted', () => {
  const knotted = [
    ['half a sentence that hangs on the name', 'Of an earlier run.'],
    ['a clause without its sentence', 'As it is typed.'],
    ['a clause with two verbs', 'What the signer says of other databases. It is asked, and told nothing that stays.'],
    ['a clause in a clause', 'Of the mails that are still recorded; failed ones may be tried again.'],
    ['a person without a name', 'Ends the session of whoever is signed in.'],
    ['a sentence of more than 28 words', `Reads ${'one more word and '.repeat(7)}the end.`],
    ['a remark of three sentences', 'It opens the file. It reads a line. It closes the file.'],
  ] as const
  for (const [name, comment] of knotted)
    test(`as ${name}`, () => assert.notEqual(knotOf({ line: 1, isBlock: false, paragraphs: [comment] }), undefined))

  const whole = [
    'What is missing comes last.',
    'What was begun is committed by now.',
    'As a join, it would begin with all orders.',
    'Of the tables that can grow, each statement reads along an index.',
    'With `caa`, a proof counts only if the CAA records permit the certificate.',
    'Who keeps the log can tell that nobody has shortened it.',
  ]
  for (const comment of whole)
    test(`but not when it has a verb of its own: ${comment}`, () =>
      assert.equal(knotOf({ line: 1, isBlock: false, paragraphs: [comment] }), undefined))
})
