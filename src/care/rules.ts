import { isDeepStrictEqual } from 'node:util'
import { ApiError } from '../errors.ts'
import { unknownPlant } from '../plants/policy.ts'
import { query, queryEach, rowOf, rowsOf, type Script, type Scripts, sql, type Value } from '../storage/scripts.ts'
import { accountGone } from '../storage/write-error.ts'
import { addDays, civilDay, dueDate, type Schedule } from './due.ts'

/*
 * The rules of plants: how often a plant needs a kind of care. The due date of a rule is stored, so that a list of due dates reads
 * an index. It is worked out again when the schedule, the events, the snooze or the time zone of the account change.
 */

/** A rule of a plant, as its row has it. */
export interface Rule {
  readonly plant: number
  readonly kind: string
  readonly everyDays: number
  /** The season from and to these days of a year; null without a season. */
  readonly seasonFrom: string | null
  readonly seasonTo: string | null
  /** Null is a pause. */
  readonly seasonDays: number | null
  /** The day on which the schedule was set. */
  readonly setOn: string
  /** The time of the newest event of this kind, in Unix seconds. */
  readonly last: number | null
  /** The first day after a snooze. */
  readonly notBefore: string | null
  /** The due date; null if the pause is the whole year. */
  readonly due: string | null
}

/** A rule of any account. */
export interface OwnedRule extends Rule {
  readonly account: number
}

/** The columns of a rule, with the names of its properties. */
export const ruleColumns = `plant, kind, every_days AS "everyDays", season_from AS "seasonFrom", season_to AS "seasonTo",
  season_days AS "seasonDays", set_on AS "setOn", last, not_before AS "notBefore", due`

/** The most rules of one plant. */
export const maxRules = 50
const rulesPerPortion = 200
/** To work out the due dates of this number of rules takes some 2 ms. */
const rulesPerStep = 50

/** The schedule of a rule. */
export function scheduleOf({ everyDays, seasonFrom, seasonTo, seasonDays }: Rule): Schedule {
  const season = seasonFrom !== null && seasonTo !== null
  return { everyDays, season: season ? { from: seasonFrom, to: seasonTo, everyDays: seasonDays } : null }
}

function dueOf(rule: Rule, zone: string | null): string | null {
  const last = rule.last === null ? null : civilDay(zone, rule.last)
  return dueDate({ ...scheduleOf(rule), setOn: rule.setOn, last, notBefore: rule.notBefore })
}

/** The time zone of an account; null for UTC. @throws ApiError 403 when the account was deleted */
export function* zoneOf(account: number): Script<string | null> {
  const row = yield* rowOf<{ zone: string | null }>(sql`SELECT time_zone AS zone FROM accounts WHERE id = ${account}`)
  if (!row) throw accountGone(undefined)
  return row.zone
}

/** Checks that an account has a plant. @throws ApiError 404 */
export function* checkPlant(account: number, plant: number): Script<void> {
  if (!(yield* rowOf(sql`SELECT id FROM plants WHERE account = ${account} AND id = ${plant}`))) throw unknownPlant()
}

/** The rules of a plant, by kind. @throws ApiError 404 for an unknown plant */
export function* rulesOf(account: number, plant: number): Script<readonly Rule[]> {
  yield* checkPlant(account, plant)
  const text = `SELECT ${ruleColumns} FROM care_rules WHERE account = $1 AND plant = $2 ORDER BY kind`
  return yield* query<Rule>(text, account, plant)
}

/**
 * Sets how often a plant needs a kind of care. The same schedule again changes nothing.
 * @param now Unix seconds
 * @throws ApiError 404 for an unknown plant, 409 for a plant with too many rules
 */
export function* setRule(
  account: number,
  plant: number,
  kind: string,
  { everyDays, season }: Schedule,
  now: number,
): Script<{ readonly rule: Rule; readonly isNew: boolean }> {
  const rules = yield* rulesOf(account, plant)
  const known = rules.find((rule) => rule.kind === kind)
  if (!known && rules.length >= maxRules) throw tooManyRules()
  const zone = yield* zoneOf(account)
  const schedule = {
    everyDays,
    seasonFrom: season?.from ?? null,
    seasonTo: season?.to ?? null,
    seasonDays: season?.everyDays ?? null,
  }
  const isSame = known !== undefined && isDeepStrictEqual(scheduleOf(known), { everyDays, season })
  const last = known ? known.last : yield* newestEvent(account, plant, kind)
  const setOn = isSame ? known.setOn : civilDay(zone, now)
  const changed = { plant, kind, ...schedule, setOn, last, notBefore: known?.notBefore ?? null, due: null }
  const rule = { ...changed, due: dueOf(changed, zone) }
  yield* rowsOf(sql`
    INSERT INTO care_rules
      (account, plant, kind, every_days, season_from, season_to, season_days, set_on, last, not_before, due)
    VALUES (${account}, ${plant}, ${kind}, ${everyDays}, ${rule.seasonFrom}, ${rule.seasonTo}, ${rule.seasonDays},
      ${setOn}, ${last}, ${rule.notBefore}, ${rule.due})
    ON CONFLICT (account, plant, kind) DO UPDATE SET every_days = excluded.every_days, season_from = excluded.season_from,
      season_to = excluded.season_to, season_days = excluded.season_days, set_on = excluded.set_on, due = excluded.due`)
  return { rule, isNew: !known }
}

/** Removes a rule. Its events stay. @throws ApiError 404 for an unknown plant or rule */
export function* removeRule(account: number, plant: number, kind: string): Script<void> {
  yield* findRule(account, plant, kind)
  yield* rowsOf(sql`DELETE FROM care_rules WHERE account = ${account} AND plant = ${plant} AND kind = ${kind}`)
}

/**
 * Moves the due date of a rule to at least some days after today, until the next event.
 * @param now Unix seconds
 * @throws ApiError 404 for an unknown plant or rule
 */
export function* snooze(account: number, plant: number, kind: string, days: number, now: number): Script<Rule> {
  const rule = yield* findRule(account, plant, kind)
  const zone = yield* zoneOf(account)
  const [snoozed = rule] = yield* saveRules(account, zone, [{ ...rule, notBefore: addDays(civilDay(zone, now), days) }])
  return snoozed
}

function* findRule(account: number, plant: number, kind: string): Script<Rule> {
  const rule = (yield* rulesOf(account, plant)).find((each) => each.kind === kind)
  if (!rule) throw unknownRule()
  return rule
}

/** The time of a plant's newest event of a kind; null without one. */
export function* newestEvent(account: number, plant: number, kind: string): Script<number | null> {
  const newest = yield* rowOf<{ at: number }>(sql`
    SELECT at FROM care_events
    WHERE log = (SELECT log FROM care_logs WHERE account = ${account} AND plant = ${plant}) AND kind = ${kind}
    ORDER BY at DESC, id DESC LIMIT 1`)
  return newest?.at ?? null
}

/** Saves the last events and the snoozes of rules, with their due dates. @returns the rules with their due dates */
export function* saveRules(account: number, zone: string | null, rules: readonly Rule[]): Script<readonly Rule[]> {
  const saved: Rule[] = []
  const update = `UPDATE care_rules SET last = $4, not_before = $5, due = $6
    WHERE account = $1 AND plant = $2 AND kind = $3`
  const values = ({ plant, kind, last, notBefore, due }: Rule): Value[] => [account, plant, kind, last, notBefore, due]
  for (let at = 0; at < rules.length; at += rulesPerStep) {
    const some = rules.slice(at, at + rulesPerStep).map((rule) => ({ ...rule, due: dueOf(rule, zone) }))
    yield* queryEach(update, some.map(values))
    saved.push(...some)
  }
  return saved
}

/**
 * Works out all due dates of an account again, in short transactions, after its time zone has changed. After an interruption, call
 * it again.
 */
export async function renewDueDates(scripts: Scripts, account: number): Promise<void> {
  let after: Rule | undefined
  do {
    const from = after
    after = await scripts.write(account, () => renewPortion(account, from))
  } while (after)
}

/** Works out the due dates of the next rules. @returns the last of these rules; undefined if no rule is left */
function* renewPortion(account: number, after: Rule | undefined): Script<Rule | undefined> {
  const zone = yield* zoneOf(account)
  const rules = yield* query<Rule>(
    `SELECT ${ruleColumns} FROM care_rules WHERE account = $1 AND (plant, kind) > ($2, $3) ORDER BY plant, kind LIMIT $4`,
    ...[account, after?.plant ?? Number.MIN_SAFE_INTEGER, after?.kind ?? '', rulesPerPortion],
  )
  yield* saveRules(
    account,
    zone,
    rules.filter((rule) => rule.due !== dueOf(rule, zone)),
  )
  return rules.at(-1)
}

function unknownRule(): ApiError {
  const message =
    'The plant has no schedule for this kind of care. GET /plants/{id}/care lists the schedules of a plant.'
  return new ApiError(404, 'unknown_care', message)
}

function tooManyRules(): ApiError {
  const message = `The plant has ${maxRules} kinds of care already. Delete one before you add another.`
  return new ApiError(409, 'too_much_care', message)
}
