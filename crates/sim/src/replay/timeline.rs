//! Counts over time in a fixed number of steps.

/// The most steps by default. When the traffic gets longer, each step becomes twice as long.
const STEPS_MAX: usize = 256;

/// Requests and denials per step of time.
#[derive(Debug, Clone)]
pub struct Timeline {
    start_ms: u64,
    step_ms: u64,
    /// Numbers per step: requests, then the denials of each limiter.
    columns: usize,
    steps_max: usize,
    counts: Vec<u64>,
}

impl Timeline {
    /// No steps yet, of a number of limiters.
    pub fn new(limiters: usize) -> Self {
        Self::with_steps(limiters, STEPS_MAX)
    }

    /// The same with at most `steps_max` steps, and at least one.
    pub fn with_steps(limiters: usize, steps_max: usize) -> Self {
        let steps_max = steps_max.max(1);
        Self { start_ms: 0, step_ms: 1, columns: limiters + 1, steps_max, counts: Vec::new() }
    }

    /// Returns the step of a time, which is not before that of an earlier call.
    pub fn step(&mut self, at_ms: u64) -> usize {
        if self.counts.is_empty() {
            self.start_ms = at_ms;
        }
        let mut step = (at_ms.saturating_sub(self.start_ms)) / self.step_ms;
        while step >= self.steps_max as u64 {
            self.double();
            step /= 2;
        }
        let step = usize::try_from(step).unwrap_or(0);
        let needed = (step + 1) * self.columns;
        if self.counts.len() < needed {
            self.counts.resize(needed, 0);
        }
        step
    }

    fn double(&mut self) {
        self.step_ms *= 2;
        let steps = self.counts.len() / self.columns;
        for step in 0..steps.div_ceil(2) {
            for column in 0..self.columns {
                let at = |step: usize| step * self.columns + column;
                let second = self.counts.get(at(2 * step + 1)).copied().unwrap_or(0);
                self.counts[at(step)] = self.counts[at(2 * step)] + second;
            }
        }
        self.counts.truncate(steps.div_ceil(2) * self.columns);
    }

    /// Counts a request.
    pub fn add_request(&mut self, step: usize) {
        self.counts[step * self.columns] += 1;
    }

    /// Counts a denial by a limiter.
    pub fn add_denial(&mut self, step: usize, limiter: usize) {
        self.counts[step * self.columns + limiter + 1] += 1;
    }

    /// Returns the time of the first step, in milliseconds since the Unix epoch.
    pub fn start_ms(&self) -> u64 {
        self.start_ms
    }

    /// Returns the length of a step in milliseconds.
    pub fn step_ms(&self) -> u64 {
        self.step_ms
    }

    /// Returns the requests of each step.
    pub fn requests(&self) -> Vec<u64> {
        self.column(0)
    }

    /// Returns the denials of a limiter in each step.
    pub fn denials(&self, limiter: usize) -> Vec<u64> {
        self.column(limiter + 1)
    }

    fn column(&self, column: usize) -> Vec<u64> {
        self.counts.iter().skip(column).step_by(self.columns).copied().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn doubling_the_steps_keeps_every_count() {
        let mut timeline = Timeline::new(1);
        for at_ms in 0..3001 {
            let step = timeline.step(1_000_000 + at_ms);
            timeline.add_request(step);
            if at_ms % 10 == 0 {
                timeline.add_denial(step, 0);
            }
        }
        assert_eq!(timeline.step_ms(), 16);
        assert_eq!(timeline.requests().iter().sum::<u64>(), 3001);
        assert_eq!(timeline.requests()[..187], [16; 187]);
        assert_eq!(timeline.denials(0).iter().sum::<u64>(), 301);
    }
}
