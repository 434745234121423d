//! One limited quantity, a part of which is guaranteed to every share.

/// A limit and its use over all shares.
#[derive(Debug)]
pub(super) struct Resource {
    limit: u64,
    used: u64,
    /// How much is guaranteed over all shares.
    guaranteed: u64,
    /// How much of it each share is guaranteed now.
    each: u64,
    /// What the shares have not yet taken of their guarantees; nobody else may take it.
    unmet: u64,
}

/// What one share uses of a resource.
#[derive(Debug, Default)]
pub(super) struct Used {
    amount: u64,
    /// A share that left is guaranteed nothing.
    left: bool,
}

impl Used {
    pub(super) fn is_zero(&self) -> bool {
        self.amount == 0
    }

    /// Ends the guarantee; the resource is to be divided anew.
    pub(super) fn leave(&mut self) {
        self.left = true;
    }
}

/// Draining that stopped goes on once so much of the limit is free again: an eighth of it.
const HYSTERESIS: u64 = 8;

impl Resource {
    pub(super) fn new(limit: u64, guaranteed: u64) -> Self {
        Self { limit, used: 0, guaranteed, each: 0, unmet: 0 }
    }

    pub(super) fn used(&self) -> u64 {
        self.used
    }

    /// Divides the guaranteed part among the shares that are left: at least one each, as long as that
    /// is no more than an eighth of the limit. What quiet shares do not use of it, busy ones miss.
    pub(super) fn divide<'a>(&mut self, members: u64, shares: impl Iterator<Item = &'a Used>) {
        let least = u64::from(members <= self.limit / 8);
        self.each = self.guaranteed.checked_div(members).unwrap_or(0).max(least);
        self.unmet = shares.map(|share| self.own_unmet(share)).sum();
    }

    /// What a share may take now: what is left of its guarantee, and what nobody is guaranteed.
    pub(super) fn available(&self, share: &Used) -> u64 {
        let free = self.limit.saturating_sub(self.used);
        let own = self.own_unmet(share);
        let common = free.saturating_sub(self.unmet - own);
        free.min(common.max(own))
    }

    /// Whether a share uses less than it would if all `members` used the same.
    pub(super) fn is_short(&self, share: &Used, members: u64) -> bool {
        share.amount < self.fair(members)
    }

    /// Whether a share uses more than that.
    pub(super) fn is_long(&self, share: &Used, members: u64) -> bool {
        share.amount > self.fair(members)
    }

    fn fair(&self, members: u64) -> u64 {
        (self.limit / members.max(1)).max(1)
    }

    /// Whether enough is available to be worth waking a waiter who wants `want`: an eighth of the
    /// limit, or as much as the guarantee where that is less, which is all that others may leave it.
    /// Of the guarantee itself an eighth is enough, because records of the waiter's own that stay
    /// may keep the rest for good.
    pub(super) fn is_worth_waking(&self, share: &Used, want: u64) -> bool {
        let available = self.available(share);
        let own = available.min(self.own_unmet(share));
        let of_all = (self.limit / HYSTERESIS).min(self.each);
        let of_own = self.each / HYSTERESIS;
        available >= want.min(of_all).max(1) || own >= want.min(of_own).max(1)
    }

    /// Takes up to `want` of what is available.
    pub(super) fn acquire(&mut self, share: &mut Used, want: u64) -> u64 {
        let got = want.min(self.available(share));
        self.charge(share, got);
        got
    }

    /// Takes `amount` whether it is available or not.
    pub(super) fn charge(&mut self, share: &mut Used, amount: u64) {
        self.change(share, |share| share.amount += amount);
        self.used += amount;
    }

    /// Gives `amount` back.
    pub(super) fn release(&mut self, share: &mut Used, amount: u64) {
        debug_assert!(share.amount >= amount, "released {amount} of {}", share.amount);
        self.change(share, |share| share.amount -= amount);
        self.used -= amount;
    }

    fn change(&mut self, share: &mut Used, change: impl FnOnce(&mut Used)) {
        let before = self.own_unmet(share);
        change(share);
        self.unmet = self.unmet + self.own_unmet(share) - before;
    }

    fn own_unmet(&self, share: &Used) -> u64 {
        if share.left { 0 } else { self.each.saturating_sub(share.amount) }
    }
}
