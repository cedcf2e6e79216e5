import { hasModelList, type ModelUser, mayUseModel, usablePartsOf } from '../access/model-lists.ts'
import { type Clock, machineClock } from '../clock.ts'
import { ApiError } from '../errors.ts'
import { didYouMean } from '../text.ts'
import { isFallback, type ModelSettings, type ModelsConfiguration } from './configuration/model-settings.ts'
import type { AdapterSettings } from './configuration/settings.ts'
import type { Model } from './model.ts'
import { type AdapterOptions, isLlamaCpp, isMisbehavingAdapter, isUnderstudyAdapter, openModel } from './open-model.ts'
import { nearestId, type RequestedModel, readPlayedModel } from './played-model.ts'
import { ignoreAttempts, type WatchAttempt } from './routing/attempt.ts'
import { Breaker, type BreakerState } from './routing/breaker.ts'
import { Candidate, type CandidateTraits } from './routing/candidate.ts'
import { InFlightRequests, Route } from './routing/route.ts'
import { UpstreamModelsCache } from './upstream-models-cache.ts'

/** A model as `GET /models` lists it. */
export interface ModelListing {
  readonly id: string
  readonly ownedBy: string
  /** Says that the model is an understudy, so that nobody takes it for a language model; missing for other models. */
  readonly description?: string
}

/** The route of a request's model id, and the character if the id names a character. */
export interface RequestedRoute extends RequestedModel {
  readonly route: Route
}

/** Options of the adapters and of the list of models. */
interface RegistryOptions extends AdapterOptions {
  /** Whether the list includes the understudies that misbehave on purpose. */
  readonly listMisbehaving?: 'on' | 'off'
}

/** A configured model with its adapter. */
interface OpenedModel {
  readonly name: string
  readonly settings: AdapterSettings
  readonly model: Model
  readonly breaker: Breaker | null
}

/** The opened models of one version of `models.json`. A reload makes a new generation. */
interface Generation {
  readonly configuration: ModelsConfiguration
  readonly opened: ReadonlyMap<string, OpenedModel>
  /** The names that are prefixes, such as `local/*`, longest first. */
  readonly prefixes: readonly string[]
  /** Cache of routes, by the ids of requests. */
  readonly routes: Map<string, Route>
  readonly inFlight: InFlightRequests
  /** The lists of models of the upstreams behind the prefixes. */
  readonly upstreamModels: UpstreamModelsCache
}

/** The user for the operator's commands. They have no key, and may use all models. */
const unrestrictedUser: ModelUser = { models: null, account: { models: null } }

/** The most cached routes. Callers may send any id behind a prefix, so without this bound the cache would grow without end. */
const maxCachedRoutes = 1000

/** All models of the service. They are found by the model ids of requests. */
export class ModelRegistry {
  readonly #options: RegistryOptions
  readonly #watch: WatchAttempt
  readonly #clock: Clock
  #generation: Generation
  /** Promises that resolve when the replaced generations are closed. */
  readonly #closing = new Set<Promise<void>>()

  /**
   * @param watch called at the start of each attempt
   * @param clock the clock for deadlines, pauses between attempts, and breakers
   */
  constructor(
    configuration: ModelsConfiguration,
    options: RegistryOptions,
    watch: WatchAttempt = ignoreAttempts,
    clock: Clock = machineClock,
  ) {
    this.#options = options
    this.#watch = watch
    this.#clock = clock
    this.#generation = open(configuration, options, clock)
  }

  /**
   * The route of a model id: the model of this name, else the longest prefix that the id begins with. `default` stands for the
   * default model, unless there is a model with the name `default`.
   * @param user the key of the request. For a fallback list, only the name of the list is checked, because the operator has
   * chosen its models
   * @throws ApiError 404 `model_not_found` for an unknown id and for an id that the key may not use; the message lists the ids
   * that the key may use
   */
  resolve(id: string, user: ModelUser = unrestrictedUser): Route {
    const route = this.find(id, user)
    if (!route) throw this.notFound(id, user)
    return route
  }

  /**
   * Resolves the id of a request: the model of this name, else a character on a model, else a model behind a prefix.
   * @returns undefined if there is no such model that the key may use
   */
  findRequested(id: string, user: ModelUser): RequestedRoute | undefined {
    const wanted = this.#parseId(id)
    if (wanted.character?.trim() === '') return undefined
    const route = this.find(wanted.model, user)
    return route && { ...wanted, route }
  }

  #parseId(id: string): RequestedModel {
    const isNamed = this.#generation.configuration.models.has(id) && !id.endsWith('*')
    return isNamed ? { model: id, character: null } : readPlayedModel(id, (model) => this.#routeOf(model) !== undefined)
  }

  /** Whether a key may use the model that `default` stands for. */
  mayUseDefault(user: ModelUser): boolean {
    return this.find('default', user) !== undefined
  }

  /**
   * The models that a key may use: first the models of `models.json`, then the models that the upstreams behind prefixes list.
   */
  async list(user: ModelUser): Promise<readonly ModelListing[]> {
    const named = [...this.#generation.configuration.models]
      .filter(([name, settings]) => !name.endsWith('*') && this.#mayUse(user, name) && this.#isListed(settings))
      .map(([id, settings]) => listingOf(id, settings))
    return [...named, ...(await this.#upstreamListings(user))]
  }

  /** The list entry of a route's model, even if the list does not show it. */
  listing({ name }: Route): ModelListing {
    const settings = this.#generation.configuration.models.get(name)
    return settings ? listingOf(name, settings) : { id: name, ownedBy: 'upstream' }
  }

  /**
   * The models behind prefixes, from the lists of their upstreams. An id is left out if it already means another model or a
   * character.
   */
  async #upstreamListings(user: ModelUser): Promise<readonly ModelListing[]> {
    const { configuration, opened, prefixes, upstreamModels } = this.#generation
    const listings = prefixes.map(async (prefix): Promise<readonly ModelListing[]> => {
      const found = opened.get(prefix)
      if (!found || 'model' in found.settings) return []
      const ids = (await upstreamModels.idsOf(prefix, found.model)).map((id) => prefix.slice(0, -1) + id)
      const own = ids.filter(
        (id) =>
          !configuration.models.has(id) &&
          longestPrefix(prefixes, id) === prefix &&
          this.#parseId(id).character === null &&
          this.#mayUse(user, id),
      )
      return own.map((id) => ({ id, ownedBy: 'upstream' }))
    })
    return (await Promise.all(listings)).flat()
  }

  #isListed(settings: ModelSettings): boolean {
    return this.#options.listMisbehaving === 'on' || !isMisbehaving(settings)
  }

  /** The names in the settings, including prefixes such as `local/*`. */
  get names(): readonly string[] {
    return [...this.#generation.configuration.models.keys()]
  }

  /** The states of the breakers, by the names of models in the settings. A model without a breaker is left out. */
  breakers(): readonly { readonly name: string; readonly state: BreakerState }[] {
    return [...this.#generation.opened.values()].flatMap(({ name, breaker }) =>
      breaker === null ? [] : [{ name, state: breaker.state }],
    )
  }

  /**
   * Replaces the configuration for all later requests. Requests in flight keep the old configuration, also for retries and
   * fallbacks. This method does not wait for these requests.
   */
  async replace(configuration: ModelsConfiguration): Promise<void> {
    const old = this.#generation
    this.#generation = open(configuration, this.#options, this.#clock)
    const closing = closeReplaced(old).finally(() => this.#closing.delete(closing))
    this.#closing.add(closing)
  }

  async close(): Promise<void> {
    await Promise.all([...this.#closing, close(this.#generation)])
  }

  /** The route of a model id as `resolve` finds it; undefined if there is no such model that the key may use. */
  find(id: string, user: ModelUser): Route | undefined {
    const route = this.#routeOf(id)
    return route && this.#mayUse(user, route.name) ? route : undefined
  }

  #routeOf(id: string): Route | undefined {
    const { routes } = this.#generation
    const known = routes.get(id)
    if (known) return known
    const route = this.#makeRoute(id)
    if (!route) return undefined
    if (routes.size >= maxCachedRoutes) routes.clear()
    routes.set(id, route)
    return route
  }

  #makeRoute(id: string): Route | undefined {
    const { configuration, opened, prefixes, inFlight } = this.#generation
    const isDefault = id === 'default' && !configuration.models.has(id)
    // Without a default model, the id `default` is unknown. The prefix `*` must not send it upstream as a model id.
    if (isDefault && configuration.default === undefined) return undefined
    const name = isDefault ? (configuration.default ?? id) : id
    const settings = configuration.models.get(name)
    if (settings && !name.endsWith('*')) {
      return new Route(name, this.#candidatesOf(isFallback(settings) ? settings.fallback : [name]), inFlight)
    }
    const prefix = longestPrefix(prefixes, name)
    const model = prefix === undefined ? undefined : opened.get(prefix)
    if (!model || prefix === undefined) return undefined
    // `*` is not a useful name for a user, so the id itself becomes the name.
    return new Route(
      name,
      [this.#candidateOf(model, name.slice(prefix.length - 1), prefix === '*' ? name : prefix)],
      inFlight,
    )
  }

  #candidatesOf(names: readonly string[]): readonly Candidate[] {
    const { configuration, opened } = this.#generation
    return names.flatMap((name) => {
      const settings = configuration.models.get(name)
      if (settings && isFallback(settings)) return this.#candidatesOf(settings.fallback)
      const model = opened.get(name)
      return model ? [this.#candidateOf(model, name, name)] : []
    })
  }

  #candidateOf({ name: configuredName, settings, model, breaker }: OpenedModel, id: string, name: string): Candidate {
    // The path of a file with weights is not a model id. So the id of such a model is its name in the settings.
    const given = 'model' in settings && !isLlamaCpp(settings) ? settings.model : undefined
    const upstreamId = given ?? id
    // By default, understudies have no retries: an understudy that fails on purpose must fail at each request.
    const retries = breaker === null ? { retries: 0 } : {}
    const host = 'baseUrl' in settings && settings.baseUrl ? { host: new URL(settings.baseUrl).host } : {}
    const relaysParameters = settings.adapter === 'openai'
    const names = { name, configuredName, upstreamId }
    const traits: CandidateTraits = { ...retries, ...settings, ...host, ...names, relaysParameters }
    return new Candidate(traits, model, breaker, this.#watch, this.#clock)
  }

  /** Whether a key may use the model of a route. `default` and the name of the default model count as the same name. */
  #mayUse(user: ModelUser, name: string): boolean {
    if (!hasModelList(user)) return true
    const { configuration } = this.#generation
    const isDefault = name === configuration.default && !configuration.models.has('default')
    return mayUseModel(user, isDefault ? [name, 'default'] : [name])
  }

  /**
   * The 404 for an unknown id, or an id that the key may not use. The message names the most similar id, and lists the models
   * that the key may use. Understudies that misbehave on purpose are not named, because nobody means one by mistake.
   * @param characters the names of characters that the key may play
   */
  notFound(id: string, user: ModelUser, characters: readonly string[] = []): ApiError {
    const models = [...this.#generation.configuration.models]
    const names = models.flatMap(([name, settings]) => {
      if (this.#mayUse(user, name)) return isMisbehaving(settings) ? [] : [name]
      return name.endsWith('*') ? usablePartsOf(name, user) : []
    })
    const ids = [...names.filter((name) => !name.endsWith('*')), ...(this.mayUseDefault(user) ? ['default'] : [])]
    const meant = didYouMean(nearestId(id, ids, characters))
    const none = models.some(([name]) => this.#mayUse(user, name)) ? 'only models that fail on purpose' : 'no model'
    const usable = names.length > 0 ? `: ${[...new Set(names)].join(', ')}` : ` ${none}`
    const message = `There is no model ${JSON.stringify(id)} here.${meant} Your key may use${usable}.`
    return new ApiError(404, 'model_not_found', message, { param: 'model' })
  }
}

/** The description of every understudy. */
const understudyDescription =
  'Test double: a stand-in without a neural network, which answers with texts of the card and stock phrases.'

/** Whether a model is an understudy that misbehaves on purpose. */
function isMisbehaving(settings: ModelSettings): boolean {
  return !isFallback(settings) && isMisbehavingAdapter(settings.adapter)
}

/** The list entry of a configured model. */
function listingOf(id: string, settings: ModelSettings): ModelListing {
  if (isFallback(settings)) return { id, ownedBy: 'conservatory' }
  if (!isUnderstudyAdapter(settings.adapter)) return { id, ownedBy: settings.adapter }
  return { id, ownedBy: 'conservatory', description: understudyDescription }
}

/** The longest prefix that an id begins with. @param prefixes longest first */
function longestPrefix(prefixes: readonly string[], id: string): string | undefined {
  return prefixes.find((key) => id.startsWith(key.slice(0, -1)) && id.length >= key.length)
}

function open(configuration: ModelsConfiguration, options: RegistryOptions, clock: Clock): Generation {
  const opened = new Map<string, OpenedModel>()
  for (const [name, settings] of configuration.models) {
    if (isFallback(settings)) continue
    opened.set(name, {
      name,
      settings,
      model: openModel(settings, options, clock),
      breaker: isUnderstudyAdapter(settings.adapter) ? null : new Breaker(clock, settings.breaker),
    })
  }
  const prefixes = [...opened.keys()].filter((name) => name.endsWith('*')).toSorted((a, b) => b.length - a.length)
  const upstreamModels = new UpstreamModelsCache(clock)
  return { configuration, opened, prefixes, routes: new Map(), inFlight: new InFlightRequests(), upstreamModels }
}

/**
 * Closes a replaced generation after its last request. An error during closing is ignored, because it has no effect on requests.
 */
async function closeReplaced(generation: Generation): Promise<void> {
  await generation.inFlight.untilNone()
  await close(generation).catch(() => {})
}

async function close({ opened, upstreamModels }: Generation): Promise<void> {
  upstreamModels.close()
  await Promise.all([...opened.values()].map(({ model }) => model.close?.()))
}
