import MiniSearch from 'minisearch'
import { spend } from '../../work/fuel.ts'
import type { Passage } from './card-passages.ts'
import { conceptsOf } from './thesaurus.ts'
import { isWeak, termsOf, type Word, wordsOf } from './words.ts'

/** A passage that matches a question. */
export interface Hit {
  readonly passage: Passage
  /** The quality of the match. If one rare word of the question occurs once in the passage, the score is about 1. */
  readonly score: number
}

/** Finds the passages that match a question, best first. */
export type Search = (question: string) => readonly Hit[]

/**
 * The weights of matches, by the field and the kind of word. They were found by experiment, and small changes have little effect.
 */
const boosts = { cue: 3, hint: 2, answer: 1 }
const weights = { concept: 0.5, weak: 0.35, neighbours: 0.5, aboutCharacter: 0.5 }
const rankingConstants = { k: 1.2, b: 0.4, d: 0.5 }

/** The share of a word's weight that counts as covered if only a synonym was found. */
const coveredByMeaning = 0.6
/** A passage keeps this share of its score, even if it covers no part of the question. */
const minCoverage = 0.1
/** The most distinct words that are searched. The last words of a message are used, because a question comes at the end. */
const maxTerms = 48

/** Units of work for each passage of the index, for each of its letters, and for each passage when a term is looked up. */
const unitsOfPassage = 1000
const unitsOfLetter = 30
const unitsOfHit = 100

/** Makes the search index of a character's passages. Each word of a question counts once in a passage, by its best match. */
export function createSearch(passages: readonly Passage[]): Search {
  const vocabulary = new Set<string>()
  const index = new MiniSearch<Passage>({
    fields: Object.keys(boosts),
    tokenize: (text) => {
      const lines = text.split('\n').map(wordsOf)
      const terms = lines.flat().flatMap(termsOf)
      const all = [...new Set([...terms, ...terms.flatMap(conceptsOf), ...lines.flatMap(neighbours)])]
      for (const term of all) vocabulary.add(term)
      return all
    },
    processTerm: (term) => term,
    searchOptions: { boost: boosts, bm25: rankingConstants, tokenize: (term) => [term] },
  })
  for (const passage of passages) {
    index.add(passage)
    spend(unitsOfPassage + (passage.cue.length + passage.hint.length + passage.answer.length) * unitsOfLetter)
  }

  const rarity = (count: number) => Math.log(1 + (passages.length - count + 0.5) / (count + 0.5))
  const scoresOf = (term: string, options = {}) =>
    new Map(
      index
        .search(term, options)
        // Typing errors rarely change the first letter: "president" must not find "residence".
        .filter(({ terms }) => terms.some((found) => found.charAt(0) === term.charAt(0)))
        .map(({ id, score }): [number, number] => [Number(id), score]),
    )
  const exactScoresOf = (term: string) => (vocabulary.has(term) ? scoresOf(term) : noScores)
  const looseScoresOf = (term: string) =>
    scoresOf(term, {
      prefix: term.length >= 4,
      fuzzy: vocabulary.has(term) || conceptsOf(term).length > 0 ? 0 : typosIn(term),
    })

  /** Adds the scores of one term to the passages. @returns the weight of the term in the question */
  const addTerm = (term: string, found: HitScores): number => {
    const exact = looseScoresOf(term)
    const related = bestOf(conceptsOf(term).map(exactScoresOf))
    const weight = isWeak(term) ? weights.weak : 1
    const share = weight * rarity(exact.size)
    for (const id of new Set([...exact.keys(), ...related.keys()])) {
      const own = exact.get(id) ?? 0
      const best = Math.max(own, weights.concept * (related.get(id) ?? 0))
      add(found, id, weight * best, own > 0 ? share : coveredByMeaning * share)
    }
    return share
  }
  const unit = rarity(1)
  /** The hits, best first. @param total the sum of the weights of all terms of the question */
  const ranked = (found: HitScores, total: number): readonly Hit[] =>
    [...found]
      .flatMap(([id, { score, covered }]) => {
        const passage = passages[id]
        if (!passage) return []
        const coverage = minCoverage + covered / total
        return [
          {
            passage,
            score: (score * coverage * (typeof passage.source === 'string' ? weights.aboutCharacter : 1)) / unit,
          },
        ]
      })
      .sort((one, other) => other.score - one.score || one.passage.id - other.passage.id)

  const unitsOfTerm = unitsOfPassage + vocabulary.size + passages.length * unitsOfHit
  return function search(question) {
    const found: HitScores = new Map()
    let total = 0
    const words = wordsOf(question)
    for (const term of [...new Set(words.flatMap(termsOf))].slice(-maxTerms)) {
      total += addTerm(term, found)
      spend(unitsOfTerm)
    }
    for (const pair of new Set(neighbours(words).slice(-maxTerms))) {
      for (const [id, score] of exactScoresOf(pair)) add(found, id, weights.neighbours * score, 0)
      spend(unitsOfTerm)
    }
    return ranked(found, total)
  }
}

/** The hits so far, by passage id: the score, and the weight of the question's terms that the passage covers. */
type HitScores = Map<number, { readonly score: number; readonly covered: number }>

function add(found: HitScores, id: number, score: number, covered: number): void {
  const before = found.get(id)
  found.set(id, { score: (before?.score ?? 0) + score, covered: (before?.covered ?? 0) + covered })
}

const noScores: ReadonlyMap<number, number> = new Map()

/** The best score of each passage in any of the maps. */
function bestOf(maps: readonly ReadonlyMap<number, number>[]): ReadonlyMap<number, number> {
  const best = new Map<number, number>()
  for (const map of maps) for (const [id, score] of map) best.set(id, Math.max(score, best.get(id) ?? 0))
  return best
}

/** The most letters of a word that may have wrong letters. The table for the comparison grows with the square of the letters. */
const maxTypingLength = 40

/** The number of wrong letters that a word of this length may have. */
function typosIn(term: string): number {
  if (term.length < 5 || term.length > maxTypingLength) return 0
  return term.length < 8 ? 1 : 2
}

/**
 * Pairs of adjacent words, joined. So "fly trap" finds "flytrap", and two adjacent words count more than the same words apart.
 */
function neighbours(words: readonly Word[]): readonly string[] {
  return words.flatMap(({ term }, position) => {
    const next = words[position + 1]?.term
    return term && next && !isWeak(term) && !isWeak(next) ? [`${term}${next}`] : []
  })
}
