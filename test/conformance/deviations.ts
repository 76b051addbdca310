const joined = 'key and value are looked up as a pair, so that two nodes cannot be taken for one another';
const exactCounts = 'counts stop at 2^53 - 1 instead of failing or becoming negative';
const noCrash = 'an override without a unit is an error, not the end of the process or of the connection';
const foreignKey = 'the recording spoils a counter under its own key; ours have other keys';
const trueCount = 'near_limit of a counter that is spared is reckoned from its true count';
const noShadow = 'a rule in shadow mode has no effect on the others';
const cached = 'a refusal is remembered for the limit that refused, whatever the length of the key';
const memcached = 'counters in memcached are exact, fail with their server, and are healthy when it answers';
const why = 'the body of an error of /json has the reason';
const unhealthy = 'health is not serving while no rules are loaded';

/** Cases that differ from the recording for any form of counter keys: the reason by name. */
const deviations: Readonly<Record<string, string>> = {
  '023 composite key collision': joined,
  '023b composite key collision of key and value': joined,
  '041 key joined with value': joined,
  '041b more joins': joined,
  '041c different requests can share one cache key': joined,
  '051b a star alone, stars in keys': joined,
  '064e override without unit over /json': noCrash,
  '070e descriptor hits of 2^63-1, then overflow': exactCounts,
  '070f is_negative_hits is an unknown field at this revision': 'hits are refunded, as the API says now',
  '070g descriptor hits of 2^63: sent to Redis as a negative number': exactCounts,
  '083 stop: only the exceeded key grows': trueCount,
  '083b stop: an exhausted shadow rule freezes the others': noShadow,
  '084b local cache outlives a larger override': cached,
  '084f a key longer than 1/1024 of the minimum cache is not cached': cached,
  '092b no configuration ever loaded': why,
  '111c metadata: merging nested structs, seen again': 'metadata of rules stays what it was',
  '112b metadata: unlimited, whitelisted and replaced rules': 'metadata has the limits that would have refused, too',
  '112c metadata is lost when the metric key is rebuilt': 'metadata of rules is never lost',
  '117 /json with an empty body or broken JSON': why,
  '118 /json with an unknown field': 'isNegativeHits is a field of the API now',
  '121 /json service errors': why,
  '122b /json field spellings': why,
  'E2c requests_per_unit beyond uint32': 'larger limits are counted exactly',
  'C12 metadata that is no protobuf Struct: date': 'bytes in base64 stay the text that they are written as',
};

/** Deviations with our own keys, played in this process. */
export const ownKeyDeviations: Readonly<Record<string, string>> = {
  ...deviations,
  '041d domains can share one cache key': joined,
  '084d a denied check with hits 0 fills the local cache': 'counters that were flushed have other keys here',
  '089 Redis command error': foreignKey,
  '089b Redis value is no number': foreignKey,
  '121b /json Redis error': foreignKey,
};

/** Deviations of a whole process with COUNTER_KEYS=reference. */
export const processDeviations: Readonly<Record<string, string>> = {
  ...deviations,
  '064 override with unit omitted ends the process': noCrash,
  '064 override with unit number 0 ends the process': noCrash,
  '064 override with unit number 8 ends the process': noCrash,
  '064 override with unit number 99 ends the process': noCrash,
  '090 memcached: a malformed key fails open': memcached,
  '091 memcached: counting': memcached,
  '091b memcached: a year counter never fills': memcached,
  '091e memcached: hits 0': memcached,
  '091f memcached: the same descriptor twice': memcached,
  '091h memcached: incr misses, add is refused, incr again': memcached,
  '092b no configuration ever loaded': unhealthy,
  '123 /healthcheck and SIGTERM while a stream is open': 'a stream that need never end holds nothing up',
  '123c no port before Redis answers': 'ports open whether or not the counters can be reached',
  '125b unknown grpc methods': 'the server describes itself',
  '127 a bad file at start-up': unhealthy,
  '128i an empty sub-directory name with watch root: no rules at all': 'it means the root itself',
  '128k a missing directory': 'what is not there yet may come: it is looked at every second',
  '129 debug port': 'pages are described in our own words',
  '132 xDS: undecodable resource': 'a resource that cannot be read is counted as a load that failed',
  '132e xDS: after a reconnect the first request names the last received version, even a refused one':
    'it names the last version that was taken',
  'T4 Prometheus: built-in mapping': 'profiles are on the debug port alone, for who has the token',
  'T5 Prometheus: depth 3, local cache and odd characters':
    'over_limit_with_local_cache has a metric of its own, so that refusals are counted once',
};
