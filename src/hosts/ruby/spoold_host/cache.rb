module UWSGI
  # A simple cache that all workers of a daemon share, without sizes, blocks or names of caches.
  class << self
    def cache_get(key, cache = '') = cache_ask('get', key, cache: cache).first
    def cache_exists(key, cache = '') = cache_ask('get', key, cache: cache).empty? ? nil : true
    alias cache_exists? cache_exists

    # Sets a value only if the key does not exist.
    def cache_set(key, value, expires = 0, cache = '') = truth(cache_ask('set', key, value, expires, cache: cache))
    def cache_update(key, value, expires = 0, cache = '') = truth(cache_ask('update', key, value, expires, cache: cache))
    def cache_del(key, cache = '') = truth(cache_ask('del', key, cache: cache))
    def cache_clear(cache = '') = truth(cache_ask('clear', cache: cache))

    # The same functions with a ! raise where these return nil.
    {
      cache_get: 'get value from uWSGI cache',
      cache_set: 'set value in uWSGI cache',
      cache_update: 'update value in uWSGI cache',
      cache_del: 'delete object from uWSGI cache',
      cache_clear: 'clear the uWSGI cache'
    }.each do |name, what|
      define_method("#{name}!") { |*arguments| public_send(name, *arguments) || raise("unable to #{what}") }
    end

    private

    def cache_ask(what, key = '', value = '', expires = 0, cache: '')
      [key, value, cache].each { |text| check(text, String) }
      ask('cache', what, cache, key, value, check(expires, Integer))
    end

    def truth(answer) = answer.first == '1' ? true : nil
  end
end
