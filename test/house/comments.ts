/**
 * Reads the comments of a TypeScript file and says which of them are knotted: half a sentence, or one that is read twice.
 *
 * A half sentence hangs on the name below it. Its verb is found by a list of words, so a rare verb looks like a missing one.
 */

export interface Comment {
  /** The first line, counted from 1. */
  line: number
  /** Whether it is a block, which may explain at length, and no remark among statements. */
  isBlock: boolean
  /** Its text without the marks; an empty line parts its paragraphs, and each tag begins one. */
  paragraphs: string[]
}

const MOST_WORDS = 28
const MOST_SENTENCES_OF_A_REMARK = 2

/** A block, lines with `//` below each other, or the end of a line of code. The formatter keeps them to these places. */
const COMMENT = /^[ \t]*\{?\/\*[\s\S]*?\*\/|^[ \t]*\/\/.*(?:\n[ \t]*\/\/.*)*|(?<=\S[ \t]+)\/\/ .*$/gm
const MARKS = /\*\/.*$|^\s*\{?(?:\/\*\*?|\/\/|\*(?!\/))/g

export function commentsOf(text: string): Comment[] {
  return [...text.matchAll(COMMENT)].map(({ 0: comment, index }) => {
    const paragraphs = ['']
    for (const line of comment.split('\n')) addLine(paragraphs, line.replaceAll(MARKS, '').trim())
    return {
      line: text.slice(0, index).split('\n').length,
      isBlock: comment.includes('/*'),
      paragraphs: paragraphs.filter((one) => one !== ''),
    }
  })
}

/** A tag and an item of a list begin a paragraph, as after an empty line. */
function addLine(paragraphs: string[], line: string): void {
  const last = paragraphs.at(-1) ?? ''
  if (line === '' || last === '' || /^(?:@\w|[-*|] |\d+[a-z]?\.? )/.test(line)) paragraphs.push(line)
  else paragraphs[paragraphs.length - 1] = `${last} ${line}`
}

/** Words that stand for a person or thing without naming it, and a verb for what the code does next. */
const IDIOM = /\b(?:whoever|goes on|gone on|those of|that of)\b/i
const OPENING = /^(?:Of|Those|That of|Whose|Whoever|Who|As|What|With)\b/

/** @returns what is wrong with a comment; undefined where nothing is */
export function knotOf({ paragraphs, isBlock }: Comment): string | undefined {
  const sentences = paragraphs.flatMap(sentencesOf)
  const idiom = sentences.map((sentence) => IDIOM.exec(sentence)?.[0]).find((found) => found !== undefined)
  if (idiom !== undefined) return `says “${idiom.toLowerCase()}”`
  const long = sentences.find((sentence) => !sentence.startsWith('@throws') && wordsIn(sentence) > MOST_WORDS)
  if (long !== undefined) return `a sentence of ${wordsIn(long)} words`
  const ends = sentences.filter((sentence) => /[.!?]\)?$/.test(sentence)).length
  if (!isBlock && ends > MOST_SENTENCES_OF_A_REMARK) return `a remark of ${ends} sentences`
  const [first = ''] = sentences
  return OPENING.test(first) && !hasMainVerb(first) ? 'half a sentence' : undefined
}

const wordsIn = (sentence: string) => sentence.split(/\s+/).length

function sentencesOf(paragraph: string): string[] {
  return paragraph
    .replace(/^(?:[-*]|\d+[a-z]?\.?) /, '')
    .split(/(?<=[.:;!?]\)?)\s+/)
    .filter((sentence) => sentence !== '')
}

const HELPING = new Set(
  (
    'am is are was were be been being has have had do does did can cannot could may might must shall should will ' +
    'would to not'
  ).split(' '),
)
const FINITE = new Set(
  (
    'am is are was were has have had do does did can cannot could may might must shall should will would ' +
    'accepts approves asks became becomes began begins belongs brings came comes costs counts decides destroys differs ' +
    'dies ends expires failed fails finds follows found gave gets gives goes got holds keeps kept knew knows lasts ' +
    'learns leaves looks loses makes means moves needs passes permits reads reduces refuses remains restricts returns ' +
    'runs said sees sends shows stands stays stops takes tells tries uses waits wants wrote writes'
  ).split(' '),
)
/** A word that begins a clause. Its verb is not the verb of the sentence. */
const SUBORDINATE = /^(?:what|who|whom|whose|which|that|where|when|while|because|if|unless|as|how|whether|why)$/

/** Whether the sentence has a verb that belongs to no clause. Each clause takes one verb. */
function hasMainVerb(sentence: string): boolean {
  const words = sentence
    .replaceAll(/`[^`]*`/g, 'name')
    .replaceAll(/\([^)]*\)/g, '')
    .replaceAll(/([,:;.])/g, ' $1 ')
    .trim()
    .toLowerCase()
    .split(/\s+/)
  let clauses = 0
  for (const [at, word] of words.entries()) {
    const before = words[at - 1] ?? ''
    // "As a join, it would begin": no verb before the comma, so this is no clause.
    if (word === ',' && words[0] === 'as' && clauses === 1) clauses = 0
    else if (SUBORDINATE.test(word)) clauses++
    else if (FINITE.has(word) && !HELPING.has(before) && before !== 'and' && before !== 'or') {
      if (clauses === 0) return true
      clauses--
    }
  }
  return false
}
