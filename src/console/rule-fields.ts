/**
 * What is counted of a rule. passed, refused: descriptors a second. soft, shadow: hits a second. share: the highest
 * share of its limit.
 */
export const ruleFields = ['passed', 'refused', 'soft', 'shadow', 'share'] as const;

/**
 * And of a rule with slots. held: slots of the fullest counter. oldest: the seconds that one of them had been held.
 * expired: slots a second that nothing had released. In a second without a request the first two are those before.
 */
export const slotFields = ['expired', 'held', 'oldest'] as const;

/** In the order of a rule's rates. */
export const allRuleFields = [...ruleFields, ...slotFields] as const;
